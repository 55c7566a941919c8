"""Numbers in a text, in digits or in English or Chinese words: 3, three, 三; 100,000, 10万, 十万.

Precise enough to decide whether a translation has a number of its source; not a full grammar of numerals.
"""

from __future__ import annotations

import math
import re

from regard.text.patterns import lazy_pattern

_DIGITS = {c: i for i, c in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2, "兩": 2, "半": 0.5}
_MULTIPLIERS = {"十": 10, "百": 100, "千": 1_000, "万": 10_000, "萬": 10_000, "亿": 10**8, "億": 10**8}
_SMALL = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_TEENS = ("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen")
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_WORDS: dict[str, float] = {word: value for value, word in enumerate((*_SMALL, *_TEENS))}
_WORDS |= {word: 10 * value for value, word in enumerate(_TENS, start=2)}
_WORDS |= {word: value for value, word in enumerate((*_ORDINALS, "eleventh", "twelfth"), start=1)}
_WORDS |= {month.lower(): value for value, month in enumerate(MONTHS, start=1)}
_WORDS |= {"a": 1, "an": 1, "once": 1, "twice": 2, "both": 2, "double": 2, "triple": 3, "decade": 10, "dozen": 12}
_WORDS |= {"fortnight": 14, "century": 100, "twentieth": 20, "thirtieth": 30}
_WORDS |= {f"{word}th": value for value, word in enumerate(_TEENS, start=13)}
_WORDS |= {f"{word[:-1]}ies": value for word, value in _WORDS.items() if word in _TENS}  # the nineties
_WORDS |= {month[:3].lower(): value for value, month in enumerate(MONTHS, start=1)}
# Values of words with several: half an hour, half of all, a quarter past, noon.
_OTHER_VALUES: dict[str, tuple[float, ...]] = {
    "half": (0.5, 30, 50),
    "quarter": (0.25, 15, 25),
    "noon": (12,),
    "pair": (2,),
}
_OTHER_VALUES |= {"midnight": (0, 12, 24), "couple": (2,), "neither": (2,), "thrice": (3,), "刻": (15,), "午": (12,)}
_OTHER_VALUES |= dict.fromkeys("俩倆双雙对對", (2,))
_SCALES = {"hundred": 100, "thousand": 1_000, "million": 10**6, "billion": 10**9, "%": 1, "percent": 1}
_SCALES |= {"trillion": 10**12, "dozen": 12}
_SHORT = {"k": 1_000, "m": 10**6, "bn": 10**9}  # $10m; but 10m may also be metres
CARDINALS = {word: _WORDS[word] for word in (*_SMALL, *_TEENS, *_TENS)}
_SCALE_WORDS = ("hundred", "thousand", "million", "billion", "trillion")
_AMBIGUOUS = ("zero", "one")  # as single words: "one" may be a pronoun
_MOST = 1e300  # "hundred hundred hundred …"
_ENGLISH_WORD = lazy_pattern("(?<![A-Za-z])(?!and(?![A-Za-z]))[A-Za-z]+", re.IGNORECASE)
_TOKEN = lazy_pattern(
    r"(?P<digits>\d[\d,]*(?:\.\d+)?)|(?P<chinese>[零〇一二两兩三四五六七八九十百千万萬亿億半]+)|(?P<word>[A-Za-z]+)|(?P<other>\S)"
)
_SCALE = "(?:百(?!分)|千(?![克米瓦卡])|[万萬亿億]){1,3}"
_SCALE_WORD = "(?:hundred|thousand|million|billion|trillion)(?![A-Za-z])"
_UNSCALED = r"(?:\d{1,3}(?:,\d{3}){1,4}|\d{1,15})(?:\.\d{1,9})?"
_SCALED = lazy_pattern(
    rf"(?<![A-Za-z0-9_.,])(?:(?:{_UNSCALED} ?{_SCALE})+|{_UNSCALED}[ -]?{_SCALE_WORD})", re.IGNORECASE
)
_SCALED_PART = lazy_pattern(rf"({_UNSCALED})[ -]?({_SCALE}|{_SCALE_WORD})", re.IGNORECASE)
_HALF_A = lazy_pattern(rf"half an? ({_SCALE_WORD})", re.IGNORECASE)
_SCALE_AFTER = lazy_pattern(rf"[ -]?({_SCALE}|{_SCALE_WORD})", re.IGNORECASE)
_KILO_UNIT = lazy_pattern("千[克米瓦卡]")
_TWO_DIGITS = lazy_pattern("[一二两兩三四五六七八九]{2}")  # 七八个: seven or eight
# A single Chinese numeral is a number only before a measure word: not in 三明治, 星期三 or 十分.
_MEASURE_WORD = lazy_pattern("[个個只隻本年月天岁歲次张張条條件块塊元位名家辆輛台把杯瓶双雙小分公米人点點口日号號]")


def numbers_to_digits(text: str) -> str:
    """Write the numbers of a text in digits: 37万 as 370,000, twenty-five as 25."""
    text = _SCALED.sub(lambda match: format_number(_scaled_value(match[0])), text)
    for start, stop, value in reversed(find_numbers(text)):
        if not text[start].isdigit():
            apart = " " if re.match("[A-Za-z]", text[start - 1 : start]) else ""  # Ken七月 is not Ken7月
            text = text[:start] + apart + format_number(value) + text[stop:]
    return text


def format_number(value: float) -> str:
    """In digits, with commas from 10,000 on: 1990 may be a year."""
    return f"{value:,.3f}".rstrip("0").rstrip(".") if value >= 10_000 else f"{value:.3f}".rstrip("0").rstrip(".")


def _scaled_value(text: str) -> float:
    """The value of 1亿2000万 or 5 million; rounded, so that 260.2 billion equals 2602亿."""
    return round(sum(digits_value(digits) * _multiplier(scale) for digits, scale in _SCALED_PART.findall(text)), 3)


def _multiplier(scale: str) -> int:
    return _SCALES.get(scale.lower()) or math.prod(_MULTIPLIERS[character] for character in scale)


def number_values(text: str) -> frozenset[float]:
    """The values of all numbers in the text, in every reading: for 3 million, both 3 and 3,000,000."""
    found: set[float] = {_scaled_value(match[0]) for match in _SCALED.finditer(text)}
    found.update(_multiplier(scale) / 2 for scale in _HALF_A.findall(text))
    found.update(value for _, _, value in english_numbers(text))
    running = 0.0  # of an unfinished number in English words or digits: twenty-three thousand
    begun = False
    for match in _TOKEN.finditer(text):
        word = (match["word"] or "").lower()
        found.update(_OTHER_VALUES.get(word or match[0], ()))
        if match["digits"]:
            running, begun = digits_value(match["digits"]), True
            found.add(running)
        elif match["chinese"]:
            found |= chinese_values(match["chinese"], running if begun else None)
            if _KILO_UNIT.match(text, match.end() - 1):
                found |= chinese_values(match["chinese"][:-1], None)  # 五十千米: fifty kilometres
            begun = False
        elif word in _SHORT and begun:
            found.add(running * _SHORT[word])
        elif word in _SCALES and begun:
            running *= _SCALES[word]
            found.add(running)
        elif word in _SCALE_WORDS:
            found.add(_SCALES[word])
        elif word in _WORDS:
            tens = begun and running % 10 == 0 and _WORDS[word] < 10
            running = running + _WORDS[word] if tens else _WORDS[word]
            begun = True
            found |= {running, _WORDS[word]}
        elif match["other"] != "-" and word != "and":
            begun = False
    return frozenset(found)


def find_numbers(text: str) -> list[tuple[int, int, float]]:
    """(start, stop, value) of each number; ambiguous words such as "a", "first" and "may" are left out."""
    found = english_numbers(text)
    for match in _TOKEN.finditer(text):
        start, stop = match.span()
        if match["digits"]:
            stop = start + len(match[0].rstrip(","))
            found.append(_with_scale(text, start, stop, digits_value(match[0])))
        elif match["chinese"] and _is_number(text, start, stop):
            found.append((start, stop, max(chinese_values(match["chinese"], None))))
    return sorted(found)


def _is_number(text: str, start: int, stop: int) -> bool:
    """Whether the Chinese numerals at this position are exactly one number."""
    numerals = text[start:stop]
    if text[start - 1 : start] in tuple("几幾数數") or text[stop : stop + 2] in ("多万", "多萬", "多亿", "多億"):
        return False  # 几十: dozens
    if _KILO_UNIT.match(text, stop - 1):
        return False
    if len(numerals) == 1:
        measured = _MEASURE_WORD.match(text, stop) and not text.startswith("分之", stop)
        word = text[start - 1 : start] in tuple("期周拜第") or text[start : stop + 1] == "十分"
        return numerals in "二两兩三四五六七八九十" and bool(measured) and not word
    if not any(numeral in _MULTIPLIERS for numeral in numerals):
        return len(numerals) == 4 and "半" not in numerals  # a year
    return numerals[0] in "一二两兩三四五六七八九十" and "半" not in numerals and not _TWO_DIGITS.search(numerals)


def english_numbers(text: str) -> list[tuple[int, int, float]]:
    """(start, stop, value) of each number in English words: twenty-five, one hundred and fifty, nineteen ninety."""
    found: list[tuple[int, int, float]] = []
    words: list[re.Match[str]] = []  # of the current number
    total = current = 0.0

    def close() -> None:
        if words and (len(words) > 1 or words[0][0].lower() not in _AMBIGUOUS):
            found.append((words[0].start(), words[-1].end(), total + current))
        words.clear()

    for match in _ENGLISH_WORD.finditer(text):
        word = match[0].lower()
        last = words[-1][0].lower() if words else ""
        between = text[words[-1].end() : match.start()] if words else ""
        joined = between in (" ", "-") or (last in _SCALE_WORDS and between in (" and ", ", ", ", and "))
        if word in _SCALE_WORDS and joined:
            if word == "hundred":
                current = min(current * 100, _MOST)
            else:
                total, current = total + (current or 1) * _SCALES[word], 0.0
        elif word in CARDINALS and joined and _continues(last, current, CARDINALS[word]):
            year = last in CARDINALS and CARDINALS[word] >= 10
            current = current * (100 if year else 1) + CARDINALS[word]
        elif word in _ORDINALS[:9] and joined and last in _TENS:
            current += _WORDS[word]
        else:
            close()
            if word not in CARDINALS:
                continue
            total, current = 0.0, CARDINALS[word]
        words.append(match)
    close()
    return found


def _continues(last: str, current: float, value: float) -> bool:
    """Whether a word of this value continues the number whose last word is `last`."""
    if last in _SCALE_WORDS:
        return value < 100 and current % 100 == 0
    if last in _TENS:
        return 0 < value < 10
    return 11 <= current <= 19 and value >= 10  # nineteen eighty: a year


def _with_scale(text: str, start: int, stop: int, value: float) -> tuple[int, int, float]:
    """Include a following scale word: 36万 and 360 thousand are one number each."""
    scale = _SCALE_AFTER.match(text, stop)
    return (start, stop, value) if scale is None else (start, scale.end(), round(value * _multiplier(scale[1]), 3))


def digits_value(text: str) -> float:
    return float(text.replace(",", ""))


def chinese_values(text: str, before: float | None) -> set[float]:
    """The values of Chinese numerals; `before` is the value of digits before them, as in 10万."""
    found: set[float] = {_DIGITS[character] for character in text if character in _DIGITS}
    if "半" in text:
        found.add(30)  # minutes
    digits = "".join(str(_DIGITS[c]) for c in text if c in _DIGITS and c != "半")
    if digits and not any(character in _MULTIPLIERS for character in text):
        found.add(float(digits))  # digit by digit: a year
    total = section = 0.0
    digit: float | None = before
    for character in text:
        if character in _DIGITS:
            digit = _DIGITS[character]
        elif _MULTIPLIERS[character] < 10_000:
            section += (1 if digit is None else digit) * _MULTIPLIERS[character]
            digit = None
        else:
            section += digit or 0
            total = (
                total * _MULTIPLIERS[character]
                if total and not section
                else total + (section or 1) * _MULTIPLIERS[character]
            )
            section, digit = 0.0, None
    found.add(total + section + (digit or 0))
    return found
