"""The numbers a text speaks of, in digits or in words, English or Chinese: 3, three, 三; 100,000, 10万, 十万.

Only as much of counting as it takes to see whether a translation kept a number: nothing is said of grammar.
"""

from __future__ import annotations

import math
import re

_DIGITS = {c: i for i, c in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2, "兩": 2, "半": 0.5}
_TIMES = {"十": 10, "百": 100, "千": 1_000, "万": 10_000, "萬": 10_000, "亿": 10**8, "億": 10**8}
_SMALL = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_TEENS = ("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen")
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
_MONTHS = ("january", "february", "march", "april", "may", "june", "july", "august", "september", "october")
_WORDS: dict[str, float] = {word: value for value, word in enumerate((*_SMALL, *_TEENS))}
_WORDS |= {word: 10 * value for value, word in enumerate(_TENS, start=2)}
_WORDS |= {word: value for value, word in enumerate((*_ORDINALS, "eleventh", "twelfth"), start=1)}
_WORDS |= {word: value for value, word in enumerate((*_MONTHS, "november", "december"), start=1)}
_WORDS |= {"a": 1, "an": 1, "once": 1, "twice": 2, "both": 2, "double": 2, "triple": 3, "decade": 10, "dozen": 12}
_WORDS |= {"fortnight": 14, "century": 100, "twentieth": 20, "thirtieth": 30}
_WORDS |= {f"{word[:-1]}ies": value for word, value in _WORDS.items() if word in _TENS}  # the nineties
_WORDS |= {word[:3]: value for word, value in _WORDS.items() if word in (*_MONTHS, "november", "december")}
# What else a word may count: half an hour, half of all, a quarter past, noon.
_ALSO: dict[str, tuple[float, ...]] = {"half": (0.5, 30, 50), "quarter": (0.25, 15, 25), "noon": (12,), "pair": (2,)}
_ALSO |= {"midnight": (0, 12, 24), "couple": (2,), "刻": (15,), "午": (12,)}
_SCALES = {"hundred": 100, "thousand": 1_000, "million": 10**6, "billion": 10**9, "%": 1, "percent": 1}
_SCALES |= {"trillion": 10**12}
_SHORT = {"k": 1_000, "m": 10**6, "bn": 10**9}  # $10m; but 10m may be metres
_SURE = frozenset([*_SMALL[2:], *_TEENS, *_TENS])
_TOKEN = re.compile(
    r"(?P<digits>\d[\d,]*(?:\.\d+)?)|(?P<chinese>[零〇一二两兩三四五六七八九十百千万萬亿億半]+)|(?P<word>[A-Za-z]+)|(?P<other>\S)"
)
_SCALE = "(?:百(?!分)|千(?![克米瓦卡])|[万萬亿億]){1,3}"
_SCALE_WORD = "(?:hundred|thousand|million|billion|trillion)(?![A-Za-z])"
_UNSCALED = r"(?:\d{1,3}(?:,\d{3}){1,4}|\d{1,15})(?:\.\d{1,9})?"
_SCALED = re.compile(rf"(?<![A-Za-z0-9_.,])(?:(?:{_UNSCALED} ?{_SCALE})+|{_UNSCALED}[ -]?{_SCALE_WORD})", re.IGNORECASE)
_SCALED_PART = re.compile(rf"({_UNSCALED})[ -]?({_SCALE}|{_SCALE_WORD})", re.IGNORECASE)
_HALF_A = re.compile(rf"half an? ({_SCALE_WORD})", re.IGNORECASE)
_SCALE_AFTER = re.compile(rf"[ -]?({_SCALE}|{_SCALE_WORD})", re.IGNORECASE)
# A single Chinese numeral is a number before what is counted; 三明治 and 星期三 are words.
_COUNTED = re.compile("[个個只隻本年月天岁歲次张張条條件块塊元位名家辆輛台把杯瓶双雙小分公米人点點口]")


def in_digits(text: str) -> str:
    """The text with amounts of digits and a word in digits alone, which every language reads: 37万 as 370,000."""
    return _SCALED.sub(lambda match: f"{_scaled_value(match[0]):,.3f}".rstrip("0").rstrip("."), text)


def _scaled_value(text: str) -> float:
    """Of 1亿2000万 or 5 million; rounded, since 260.2 billion is to be 2602亿."""
    return round(sum(digits_value(digits) * _times(scale) for digits, scale in _SCALED_PART.findall(text)), 3)


def _times(scale: str) -> int:
    return _SCALES.get(scale.lower()) or math.prod(_TIMES[character] for character in scale)


def values(text: str) -> frozenset[float]:
    """Every number that the text can be taken to speak of: of 3 million both the 3 and the whole."""
    found: set[float] = {_scaled_value(match[0]) for match in _SCALED.finditer(text)}
    found.update(_times(scale) / 2 for scale in _HALF_A.findall(text))
    running = 0.0  # of English words or digits that go on: twenty-three thousand
    begun = False
    for match in _TOKEN.finditer(text):
        word = (match["word"] or "").lower()
        found.update(_ALSO.get(word or match[0], ()))
        if match["digits"]:
            running, begun = digits_value(match["digits"]), True
            found.add(running)
        elif match["chinese"]:
            found |= chinese_values(match["chinese"], running if begun else None)
            begun = False
        elif word in _SHORT and begun:
            found.add(running * _SHORT[word])
        elif word in _SCALES and begun:
            running *= _SCALES[word]
            found.add(running)
        elif word in _WORDS:
            tens = begun and running % 10 == 0 and _WORDS[word] < 10
            running = running + _WORDS[word] if tens else _WORDS[word]
            begun = True
            found |= {running, _WORDS[word]}
        elif match["other"] != "-" and word != "and":
            begun = False
    return frozenset(found)


def find_numbers(text: str) -> list[tuple[int, int, float]]:
    """(start, stop, value) of each number that cannot be taken for anything else, as a, first and may can."""
    found = []
    for match in _TOKEN.finditer(text):
        word, chinese = (match["word"] or "").lower(), match["chinese"] or ""
        start, stop = match.span()
        if match["digits"]:
            stop = start + len(match[0].rstrip(","))
            found.append(_with_scale(text, start, stop, digits_value(match[0])))
        elif word in _SURE:
            found.append(_with_scale(text, start, stop, _WORDS[word]))
        elif chinese[:1] and chinese[0] in "二三四五六七八九" and "半" not in chinese:
            counts = _COUNTED.match(text, stop) and text[start - 1 : start] not in tuple("期周拜第")
            if len(chinese) > 1 or counts:
                found.append((start, stop, max(chinese_values(chinese, None))))
    return found


def _with_scale(text: str, start: int, stop: int, value: float) -> tuple[int, int, float]:
    """36万 and 360 thousand are one number each."""
    scale = _SCALE_AFTER.match(text, stop)
    return (start, stop, value) if scale is None else (start, scale.end(), round(value * _times(scale[1]), 3))


def digits_value(text: str) -> float:
    return float(text.replace(",", ""))


def chinese_values(text: str, before: float | None) -> set[float]:
    """What Chinese numerals say, and what they make of digits before them: 10 and 万."""
    found: set[float] = {_DIGITS[character] for character in text if character in _DIGITS}
    if "半" in text:
        found.add(30)  # minutes
    digits = "".join(str(_DIGITS[c]) for c in text if c in _DIGITS and c != "半")
    if digits and not any(character in _TIMES for character in text):
        found.add(float(digits))  # read one by one: a year
    total = section = 0.0
    digit: float | None = before
    for character in text:
        if character in _DIGITS:
            digit = _DIGITS[character]
        elif _TIMES[character] < 10_000:
            section += (1 if digit is None else digit) * _TIMES[character]
            digit = None
        else:
            section += digit or 0
            total = total * _TIMES[character] if total and not section else total + (section or 1) * _TIMES[character]
            section, digit = 0.0, None
    found.add(total + section + (digit or 0))
    return found
