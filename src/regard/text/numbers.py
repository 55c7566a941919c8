"""The numbers a text speaks of, in digits or in words, English or Chinese: 3, three, 三; 100,000, 10万, 十万.

Only as much of counting as it takes to see whether a translation kept a number: nothing is said of grammar.
"""

from __future__ import annotations

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
_SURE = frozenset([*_SMALL[2:], *_TEENS, *_TENS])
_TOKEN = re.compile(
    r"(?P<digits>\d[\d,]*(?:\.\d+)?)|(?P<chinese>[零〇一二两兩三四五六七八九十百千万萬亿億半]+)|(?P<word>[A-Za-z]+)|(?P<other>\S)"
)


def values(text: str) -> frozenset[float]:
    """Every number that the text can be taken to speak of: of 3 million both the 3 and the whole."""
    found: set[float] = set()
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
        word = (match["word"] or "").lower()
        if match["digits"]:
            found.append((match.start(), match.start() + len(match[0].rstrip(",")), digits_value(match[0])))
        elif word in _SURE:
            found.append((*match.span(), _WORDS[word]))
        elif match["chinese"] and match["chinese"][0] in "二三四五六七八九" and "半" not in match["chinese"]:
            found.append((*match.span(), max(chinese_values(match["chinese"], None))))
    return found


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
            total += (section or 1) * _TIMES[character]
            section, digit = 0.0, None
    found.add(total + section + (digit or 0))
    return found
