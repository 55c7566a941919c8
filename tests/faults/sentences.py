"""Sentences with numbers, units and negations, and an oracle that says whether a translation keeps them.

    python tests/faults/sentences.py --count 5000 --seed 1          the installed models, each direction

The generator knows what it wrote: the value, the unit and whether the sentence is negated. The oracle knows nothing of
the parsers in `regard.guards`: it looks in the translation for the ways to write that value and that unit. A
translation that it does not recognise must have a note. The exit code is 1 if there is one that is neither.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

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


@dataclass(frozen=True)
class Fact:
    """Something that a translation must contain."""

    written: str  # in the source
    accepted: str  # a regular expression of all ways to write it in the target language


@dataclass(frozen=True)
class Sentence:
    text: str
    facts: tuple[Fact, ...]
    negated: bool


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
    forms += {0.5: ["half(?: an?| of)?", "半", "一半", "二分之一"], 0.75: ["three[ -]quarters", "四分之三"]}.get(
        value, []
    )
    inner = "|".join(sorted(set(forms), key=len, reverse=True))
    return (
        rf"(?<![\d.\w-])(?:{inner})(?![\d零一二三四五六七八九十百千万亿]|[.,]\d)"
        if to == "en"
        else (
            rf"(?<![\d.A-Za-z零一二三四五六七八九十百千万亿点])(?<!负)(?<!-)(?:{inner})(?!千(?!米|克))(?![\d零"
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


class Generator:
    def __init__(self, source: str, seed: int) -> None:
        self.source, self.target = source, "en" if source == "zh" else "zh"
        self.random = random.Random(f"{source}{seed}")

    def sentences(self, count: int) -> list[Sentence]:
        return [self.sentence() for _ in range(count)]

    def sentence(self) -> Sentence:
        kind = self.random.random()
        if kind < 0.12:
            text, negated = self.random.choice(WORDS_ONLY[self.source])
            return Sentence(text, (), negated)
        template, count, negated = self.random.choice(TEMPLATES[self.source])
        quantities = [self.quantity() for _ in range(count)]
        while len({fact.accepted for _, facts in quantities for fact in facts}) < sum(
            len(facts) for _, facts in quantities
        ):
            quantities = [self.quantity() for _ in range(count)]  # each number once, so that none hides another
        return Sentence(
            template.format(*(text for text, _ in quantities)), tuple(f for _, fs in quantities for f in fs), negated
        )

    def quantity(self) -> tuple[str, list[Fact]]:
        kinds = (
            self.count,
            self.measure,
            self.measure,
            self.measure,
            self.copied,
            self.copied,
            self.money,
            self.time,
            self.interval,
        )
        return self.random.choice(kinds)()

    def value(self) -> float:
        pick = self.random.random
        if pick() < 0.25:
            return round(self.random.uniform(0.1, 100), self.random.choice([1, 2]))
        return float(
            self.random.choice(
                [self.random.randint(2, 20), self.random.randint(21, 999), self.random.randint(1000, 99999)]
            )
        )

    def write(self, value: float) -> str:
        """The number in one of its writings."""
        forms = plain_forms(value)[:2]
        number = int(value)
        if value == number:
            forms += [chinese_words(number) if self.source == "zh" else english_words(number)]
            forms += ["".join(chr(ord(one) + 0xFEE0) for one in str(number))]  # full width
            forms += [f"{number:,}".replace(",", " ")] if number >= 1000 else []
            if self.source == "zh" and number % 100 == 0 and number >= 10_000:
                forms += [f"{number / 10_000:g}万"]
        elif value == 0.5:
            forms += ["½"]
        return self.random.choice(forms)

    def count(self) -> tuple[str, list[Fact]]:
        value = float(int(self.value()) + 2)
        chinese, english = self.random.choice(NOUNS)
        text = f"{self.write(value)}{chinese}" if self.source == "zh" else f"{self.write(value)} {english}"
        return text, [Fact(text, number_pattern(value, self.target))]

    def measure(self) -> tuple[str, list[Fact]]:
        chinese, english, in_chinese, in_english = self.random.choice(UNITS)
        value, sign = self.value(), ""
        if "°" in english[0] and self.random.random() < 0.5:
            sign = self.random.choice(["-", "−", "零下" if self.source == "zh" else "minus "])
        unit = self.random.choice(chinese if self.source == "zh" else english)
        number = self.write(value)
        space = "" if self.source == "zh" or unit == "%" else " "
        text = f"{sign}{number}{space}{unit}"
        return text, [
            Fact(
                text,
                self.with_unit(
                    number_pattern(value, self.target),
                    in_chinese if self.target == "zh" else in_english,
                    bool(sign),
                    unit,
                ),
            )
        ]

    def with_unit(self, number: str, units: str, negative: bool, unit: str) -> str:
        after = r"(?![A-Za-z/²])" if self.target == "en" else r"(?![A-Za-z/²]|每小时|钱币)"
        fact = rf"{number}[ -]?(?:{units}){after}"
        if unit == "公里/小时" or unit.startswith(("km/h", "kilometers per")):
            fact = rf"(?:{fact}|(?:时速|每小时) ?{number} ?(?:公里|千米))"
        if unit in ("%", "percent") and self.target == "zh":
            bare = number[number.index(")(?:") + 1 :]
            fact = f"(?:{fact}|百分之{bare})"
        if not negative:
            return fact
        bare = number[number.index(")(?:") + 1 :] if ")(?:" in number else number
        below = rf"{number}[ -]?(?:{units}) below(?: zero)?"
        return rf"(?:(?:-|−|minus |negative |零下|负){bare}[ -]?(?:{units}){after}|{below})"

    def copied(self) -> tuple[str, list[Fact]]:
        """Writings that must stay as they are, or be written as a decimal."""
        pick = self.random.randint
        small = pick(2, 9)
        forms: list[tuple[str, str]] = [
            (f"{small}e-{pick(2, 9)}", ""),
            (f"{small}.{pick(1, 9)}e{pick(3, 9)}", ""),
            (f"10{self.random.choice('²³⁴⁵')}", ""),
            (f"{small}.{pick(1, 9)}×10^{pick(3, 20)}", ""),
            (f".{pick(1, 99):02}", r"0?"),
            (f"{small}‰", ""),
            (f"{pick(3, 9)}:{pick(1, 2)}", ""),
            (f"v{pick(1, 9)}.{pick(0, 9)}.{pick(0, 9)}", ""),
            (f"{pick(2, 99)}+{pick(2, 99)}={pick(2, 99)}", ""),
            (self.random.choice(["½", "¾", "⅓", f"{small}½"]), ""),
            (f"192.168.{pick(0, 255)}.{pick(0, 255)}", ""),
            (f"{pick(2010, 2030)}-{pick(10, 12)}-{pick(10, 28)}", ""),
        ]
        text, before = self.random.choice(forms)
        return text, [
            Fact(
                text,
                rf"(?<![\d.\w-]){before}{re.escape(text)}(?![\d\w½])"
                if self.target == "en"
                else rf"(?<![\d.A-Za-z-]){before}{re.escape(text)}(?![\dA-Za-z½])",
            )
        ]

    def money(self) -> tuple[str, list[Fact]]:
        sign, currency = self.random.choice(PREFIXED)
        value = self.value()
        text = sign + self.random.choice(plain_forms(value)[:2])
        number, names = number_pattern(value, self.target), CURRENCIES[self.target][currency]
        bare = number[number.index(")(?:") + 1 :] if ")(?:" in number else number
        return text, [Fact(text, rf"(?:{re.escape(sign)}{bare}|{number} ?(?:{names})(?![a-z]))")]

    def time(self) -> tuple[str, list[Fact]]:
        hour, minute = self.random.randint(1, 11), self.random.choice([0, 0, 15, 20, 30, 45])
        afternoon = self.random.random() < 0.5
        day = (hour + 12) if afternoon else hour
        clock = f"{day}:{minute:02}"
        if self.source == "zh":
            digits = self.random.random() < 0.5
            written = (str(hour) if digits else "两" if hour == 2 else chinese_words(hour)) + "点"
            written += (
                "" if not minute else "半" if minute == 30 else f"{minute if digits else chinese_words(minute)}分"
            )
            text = (
                self.random.choice([clock] if afternoon else [clock, "上午" + written])
                if self.random.random() < 0.4
                else ("下午" if afternoon else "上午") + written
            )
        else:
            half = self.random.choice(["pm", "p.m."] if afternoon else ["am", "a.m."])
            text = clock if self.random.random() < 0.4 else f"{hour}{f':{minute:02}' if minute else ''} {half}"
        accepted = self.time_pattern(hour, minute, afternoon, clock)
        if text == clock and not afternoon:  # nothing says which half of the day
            accepted += "|" + self.time_pattern(hour, minute, afternoon, clock, any_half=True)
        return text, [Fact(text, accepted)]

    def time_pattern(self, hour: int, minute: int, afternoon: bool, clock: str, any_half: bool = False) -> str:
        if self.target == "en":
            hours = f"(?:{hour}|{ONES[hour]})"
            exact = rf"{hour}:{minute:02}" if minute else rf"{hours}(?::00)?(?: o'clock)?"
            halves = (
                "p\\.?m|in the (?:afternoon|evening)|(?:this|tomorrow) (?:afternoon|evening)|at night|tonight"
                if afternoon
                else "a\\.?m|in the morning|this morning"
            )
            spoken = {
                30: rf"half past {hours}",
                15: rf"(?:a )?quarter past {hours}",
                45: rf"(?:a )?quarter to (?:{hour + 1}|{ONES[hour + 1]})",
            }.get(minute, exact)
            halves = f" ?(?:{halves})" if not any_half else ""
            return rf"(?<![\d:.])(?:{clock}(?![\d:])|(?:{exact}|{spoken}){halves})"
        number = f"(?:{hour}|{chinese_words(hour)}{'|两' if hour == 2 else ''})"
        day = hour + 12 if afternoon else hour
        minutes = "(?:整|钟|00分)?"
        if minute:
            quarters = {15: "|一刻", 30: "|半", 45: "|三刻"}.get(minute, "")
            minutes = f"(?:{minute}分?|{chinese_words(minute)}分?{quarters})"
        part = "下午|傍晚|晚上|今晚|午后" if afternoon else "上午|早上|早晨|凌晨|清晨"
        part = "" if any_half else part
        forms = [rf"{clock}(?![\d:])", f"(?:{part})(?:{number}[点时]{minutes}|{hour}:{minute:02})"]
        if afternoon:
            forms.append(f"(?:{day}|{chinese_words(day)})[点时]{minutes}")
        return rf"(?<![\d:.])(?:{'|'.join(forms)})"

    def interval(self) -> tuple[str, list[Fact]]:
        chinese, english, in_chinese, in_english = self.random.choice(
            [unit for unit in UNITS if "°" not in unit[1][0] and "/" not in unit[0][0] and unit[0][0] != "%"]
        )
        low = self.random.randint(2, 9)
        high = low + self.random.randint(1, 9)
        joint = self.random.choice(["-", "–", "~", "到"] if self.source == "zh" else ["-", "–", " to "])
        unit = self.random.choice(chinese if self.source == "zh" else english)
        space = "" if self.source == "zh" else " "
        text = f"{low}{joint}{high}{space}{unit}"
        units = in_chinese if self.target == "zh" else in_english
        first, second = (
            number_pattern(float(one), self.target).replace(r"\w-]", "]").replace("(?<!-)", "") for one in (low, high)
        )
        tail = rf"[ -]?(?:{units})(?![A-Za-z/²])"
        return text, [Fact(text, rf"{first}(?:{tail})? ?(?:-|–|~|～|到|至|to|and|or|或) ?{second}{tail}")]


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


def oracle(sentence: Sentence, translation: str, to: str) -> list[str]:
    """What the translation does not keep, or has in addition."""
    wrong = []
    rest = translation
    for fact in sentence.facts:
        rest, count = re.subn(fact.accepted, " ", rest, count=1, flags=re.IGNORECASE if to == "en" else 0)
        if not count:
            wrong.append(fact.written)
    if re.search(r"\d", rest):
        wrong.append(f"added: {rest}")
    if sentence.negated and not re.search(NEGATION[to], translation, re.IGNORECASE):
        wrong.append("negation lost")
    if not sentence.negated and re.search(SURE_NEGATION[to], translation, re.IGNORECASE):
        wrong.append("negation added")
    return wrong


@dataclass(frozen=True)
class Violation:
    source: str
    translation: str
    wrong: tuple[str, ...]


def judge(
    sentences: Sequence[Sentence], translations: Sequence[tuple[str, str]], to: str
) -> tuple[Counter[str], list[Violation]]:
    """How many translations are kept, kept but noted, or noted; and those that are neither kept nor noted."""
    counts: Counter[str] = Counter()
    violations = []
    for sentence, (text, note) in zip(sentences, translations, strict=True):
        wrong = oracle(sentence, text, to)
        counts[("kept" if not wrong else "changed") + (", with a note" if note else "")] += 1
        if wrong and not note:
            violations.append(Violation(sentence.text, text, tuple(wrong)))
    return counts, violations


def run(count: int, seed: int) -> Iterator[tuple[str, Counter[str], list[Violation]]]:
    """Both directions, with the installed models."""
    from regard import Translator

    for source, to in (("zh", "en"), ("en", "zh")):
        sentences = Generator(source, seed).sentences(count)
        found = Translator(source=source, to=to).translate([one.text for one in sentences])
        yield f"{source} → {to}", *judge(sentences, [(one.text, one.note) for one in found], to)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=5000, help="sentences in each direction")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, help="file for all violations")
    args = parser.parse_args(argv)
    failed = False
    report = {}
    for way, counts, violations in run(args.count, args.seed):
        print(f"{way}: {dict(counts)}; neither kept nor noted: {len(violations)}")
        for one in violations[:40]:
            print(f"    {one.source} | {one.translation} | {', '.join(one.wrong)}")
        failed = failed or bool(violations)
        report[way] = [vars(one) for one in violations]
    if args.json:
        args.json.write_text(json.dumps(report, ensure_ascii=False, indent=1), "utf-8")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
