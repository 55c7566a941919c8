"""How numbers, units and negations may be written in Chinese and English; for `sentences.py`.

Kept apart from the parsers of `regard.guards` on purpose: what checks them must not share their mistakes.
"""

from __future__ import annotations

import re

ONES = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
]
ONES += ["seventeen", "eighteen", "nineteen"]
TENS = ["_", "_", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
HAN_DIGITS = "零一二三四五六七八九"


# -- how numbers are written


def english_words(number: int) -> str:
    if number < 20:
        return ONES[number]
    if number < 100:
        return TENS[number // 10] + (f"-{ONES[number % 10]}" if number % 10 else "")
    for scale, name in ((10**6, "million"), (1000, "thousand"), (100, "hundred")):
        if number >= scale:
            rest = english_words(number % scale) if number % scale else ""
            joint = " and " if rest and (scale == 100 or number % scale < 100) else " "
            return f"{english_words(number // scale)} {name}" + (joint + rest if rest else "")
    raise AssertionError(number)


def chinese_words(number: int) -> str:
    if number < 10:
        return HAN_DIGITS[number]
    for scale, name in ((10**8, "亿"), (10**4, "万"), (1000, "千"), (100, "百"), (10, "十")):
        if number >= scale:
            front = "" if scale == 10 and number < 20 else chinese_words(number // scale)
            rest = number % scale
            zero = "零" if rest and rest < scale // 10 and scale > 10 else ""
            return front + name + (zero + (chinese_words(rest) if rest else ""))
    raise AssertionError(number)


def plain_forms(value: float) -> list[str]:
    """In digits, with and without commas."""
    if value == int(value):
        return [str(int(value)), f"{int(value):,}", f"{int(value)}.0", f"{int(value):,}".replace(",", " ")]
    short = f"{value:.10f}".rstrip("0")
    return [short, f"{value:,.10f}".rstrip("0"), short.removeprefix("0")]


def number_pattern(value: float, to: str) -> str:
    """All ways to write a number in the target language, longest first."""
    forms = [re.escape(form) for form in plain_forms(value)]
    if value == int(value) and 0 <= value < 10**12:
        number = int(value)
        if to == "en" and number < 10**9:
            words = english_words(number)
            forms += [re.escape(words), re.escape(words.replace(" and ", " ")), re.escape(words.replace("-", " "))]
            forms += ["both", "a couple(?: of)?", "a pair of", "twice"] if number == 2 else []
            forms += ["a hundred"] if number == 100 else ["a thousand"] if number == 1000 else []
            forms += [rf"{number // 10**6} million"] if number and number % 10**6 == 0 else []
            forms += [rf"{number / 10**6:g} million"] if number >= 10**6 else []
        if to == "zh" and number:
            words = chinese_words(number)
            forms += [words, words.replace("二百", "两百").replace("二千", "两千").replace("二万", "两万")]
            forms += ["两", "俩", "双"] if number == 2 else []
            forms += [f"{number / scale:g}{name}" for scale, name in ((10**4, "万"), (10**8, "亿")) if number >= scale]
            forms += ["一半"] if value == 0.5 else []
    forms += {0.5: ["half(?: an?| of)?", "半", "一半", "二分之一", "½"], 0.75: ["three[ -]quarters", "四分之三"]}.get(
        value, []
    )
    inner = "|".join(sorted(set(forms), key=len, reverse=True))
    return (
        rf"(?<![\d.\w-])(?:{inner})(?![\d零一二三四五六七八九十百千万亿]|[.,]\d)"
        if to == "en"
        else (
            rf"(?<![\d.A-Za-z零一二三四五六七八九十百千万亿点])(?<!负)(?<!-)(?:{inner})(?!千(?!米|克))(?![\d⁰¹²³⁴⁵零"
            rf"一二三四五六七八九十百万亿]|[.,:]\d)"
        )
    )


# -- units: (Chinese to write, English to write, accepted in Chinese, accepted in English)

UNITS = (
    (("毫克",), ("mg", "milligrams"), "毫克|mg", "mg|milligrams?"),
    (("公斤", "千克"), ("kg", "kilograms"), "公斤|千克|kg", "kg|kilos?|kilograms?"),
    (("克",), ("g", "grams"), "克|g", "g|grams?"),
    (("吨",), ("tons",), "吨|t", "t|tons?|tonnes?"),
    (("公里",), ("km", "kilometers", "kilometres"), "公里|千米|km", "km|kilomet(?:er|re)s?"),
    (("米",), ("m", "meters"), "米|公尺|m", "m|met(?:er|re)s?"),
    (("厘米",), ("cm", "centimeters"), "厘米|公分|cm", "cm|centimet(?:er|re)s?"),
    (("毫米",), ("mm", "millimeters"), "毫米|mm", "mm|millimet(?:er|re)s?"),
    (("升",), ("liters", "litres"), "升|公升|L|l", "L|l|lit(?:er|re)s?"),
    (("毫升",), ("ml",), "毫升|ml", "ml|mL|millilit(?:er|re)s?"),
    (("平方米",), ("m²", "square meters"), "平方米|平米|平方公尺|m²", "m²|square met(?:er|re)s?"),
    (("英里",), ("miles",), "英里", "miles?|mi"),
    (("摄氏度",), ("°C", "degrees Celsius"), "摄氏度|度|°C|℃", "°C|℃|degrees?(?: (?:Celsius|centigrade))?"),
    (("华氏度",), ("°F",), "华氏度|°F", "°F|℉|degrees? Fahrenheit"),
    (("GB",), ("GB", "gigabytes"), "GB|G|吉字节|千兆字节", "GB|gigabytes?"),
    (
        ("公里/小时",),
        ("km/h", "kilometers per hour"),
        "公里/小时|公里每小时|千米/小时|km/h",
        "km/h|kph|kilomet(?:er|re)s? (?:per|an) hour",
    ),
    (("美元", "美金"), ("dollars",), "美元|美金|美圆|USD", "dollars?|USD|bucks"),
    (("欧元",), ("euros",), "欧元|EUR|€", "euros?|EUR"),
    (("日元",), ("yen",), "日元|日圆|円", "yen|JPY"),
    (("块钱", "元"), ("yuan",), "元|块钱?|人民币", "yuan|RMB|CNY|kuai"),
    (("分钟",), ("minutes",), "分钟?", "minutes?|min"),
    (("小时",), ("hours",), "个?小时|个?钟头", "hours?|h"),
    (("天",), ("days",), "天|日", "days?"),
    (("年",), ("years",), "年|岁", "years?(?: old)?"),
    (("%",), ("%", "percent"), "%", "%|percent|per cent"),
)
NOUNS = (
    ("个苹果", "apples"),
    ("本书", "books"),
    ("个人", "people"),
    ("只猫", "cats"),
    ("辆车", "cars"),
    ("张票", "tickets"),
)
PREFIXED = (("$", "USD"), ("€", "EUR"), ("£", "GBP"), ("¥", "CNY"))
CURRENCIES = {
    "zh": {"USD": "美元|美金", "EUR": "欧元", "GBP": "英镑|镑", "CNY": "元|块钱?|日元"},
    "en": {"USD": "dollars?|USD", "EUR": "euros?|EUR", "GBP": "pounds?|GBP", "CNY": "yuan|RMB|CNY|yen|kuai"},
}


TEMPLATES: dict[str, tuple[tuple[str, int, bool], ...]] = {
    "zh": (
        *(("质量是{}。", 1, False), ("误差是{}。", 1, False), ("他需要{}。", 1, False), ("我们有{}。", 1, False)),
        *(
            ("她告诉我答案是{}。", 1, False),
            ("一共是{}。", 1, False),
            ("剂量不是{}。", 1, True),
            ("我没有{}。", 1, True),
        ),
        *(
            ("他从来没有用过{}。", 1, True),
            ("别给他{}。", 1, True),
            ("结果是{}，不是{}。", 2, True),
            ("我看到了{}和{}。", 2, False),
        ),
        *(("昨天他买了{}，今天他买了{}。", 2, False), ("她不知道那是{}。", 1, True), ("没有{}他就走了。", 1, True)),
    ),
    "en": (
        *(
            ("The weight is {}.", 1, False),
            ("The probability is {}.", 1, False),
            ("He needs {}.", 1, False),
            ("We have {}.", 1, False),
        ),
        *(
            ("She told me that the answer is {}.", 1, False),
            ("The dose is not {}.", 1, True),
            ("I don't have {}.", 1, True),
        ),
        *(("He has never used {}.", 1, True), ("Don't give him {}.", 1, True), ("The result is {}, not {}.", 2, True)),
        *(("I saw {} and {}.", 2, False), ("Yesterday he bought {}, today he bought {}.", 2, False)),
        *(("She doesn't know that it is {}.", 1, True), ("He left without {}.", 1, True)),
    ),
}
WORDS_ONLY: dict[str, tuple[tuple[str, bool], ...]] = {
    "zh": (
        *(("我不喜欢这本书。", True), ("他没来。", True), ("别碰那个按钮。", True), ("我从来没去过北京。", True)),
        *(("她不是医生。", True), ("这个门未锁。", True), ("没有水我们怎么活？", True), ("这不是我的错。", True)),
        *(("我很喜欢这本书。", False), ("他昨天来了。", False), ("天气非常好。", False), ("他特别高兴。", False)),
        *(("他的中文不错。", False), ("别人都走了。", False), ("她差不多到了。", False), ("病人无法进食。", True)),
    ),
    "en": (
        *(("I do not like this book.", True), ("He didn't come.", True), ("Never touch that button.", True)),
        *(("I have never been to Beijing.", True), ("She isn't a doctor.", True), ("Nobody knows the answer.", True)),
        *(
            ("We can't live without water.", True),
            ("There is no milk in the fridge.", True),
            ("Don't take this medicine.", True),
        ),
        *(("I like this book very much.", False), ("He came yesterday.", False), ("The weather is very good.", False)),
        *(("Everybody knows the answer.", False), ("Take this medicine after meals.", False)),
    ),
}
NEGATION = {
    "en": r"\b(?:not|no|never|nobody|nothing|none|neither|nor|without|cannot|nowhere|unable|impossible|"
    r"refuse[sd]?|hate[sd]?|dislike[sd]?"
    r"|fail(?:s|ed)?|lack(?:s|ed)?|hardly|seldom|rarely|stop(?:ped)?|wrong|unless|avoid(?:ed)?|forg[eo]t\w*|"
    r"un(?:locked|known|done|wise|happy|used))\b|n['’]t\b",
    "zh": "不|没|沒|无|未|别|非(?!常)|勿|莫|禁止|拒绝|讨厌|忘|错(?!过)|难|停止|失败",
}
SURE_NEGATION = {
    "en": r"\b(?:not(?! only)|never|nobody|nothing|none|neither|without|cannot)\b|n['’]t\b|\bno\b(?! (?:doubt|"
    r"matter|problem))",
    "zh": "不(?!错|但|过|仅|久|少|断|管|论|只|然|同)(?<!差不)(?<!对不)|没(?!关系|事|问题|错)|未(?!来)|"
    "别(?!人|的|墅)(?<!特别)(?<!分别)(?<!告别)(?<!区别)",
}
