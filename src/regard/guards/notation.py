"""Numbers in digits, in every notation: 1,234.5, 1 234, .05, 1e-7, 10³, ½, 1:3, 16:9, 14:30, v2.3.1, 3 + 5 = 8."""

from __future__ import annotations

import math
import re
import unicodedata
from dataclasses import dataclass

from regard.guards.quantities import Quantity, Reading, negative, reading
from regard.guards.units import CURRENCY_SIGNS, CURRENCY_UNITS
from regard.text.literals import NOTATIONS, scan
from regard.text.patterns import lazy_pattern

_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻", "0123456789+-")
_NOTATION = lazy_pattern(
    r"(?P<code>(?<![A-Za-z0-9])(?!(?:USD|RMB|CNY|EUR|JPY|HKD|GBP)\d)[A-Za-z]+-?\d(?:[\w.-]*[A-Za-z0-9])?(?![A-Za-z0-9]))"
    rf"|(?<![A-Za-z0-9_])(?<!\d\.)(?:(?P<time>(?:[01]?\d|2[0-4])[:：][0-5]\d(?::[0-5]\d)?(?![\d:：]))"
    rf"|{'|'.join(f'(?P<{name}>{pattern})' for name, pattern in NOTATIONS.items())})"
    r"|(?P<roman>(?<![A-Za-z0-9'-])(?=[IVX]{2})(?:X{0,3})(?:IX|IV|V?I{0,3})(?![A-Za-z0-9'-]))"
    r"|(?P<plain>(?<![\d.])\d{1,3}(?:,\d{3})+(?!\d|,\d)(?:\.\d+)?)"
    r"|(?P<odd>\d+(?:,\d+)+(?:\.\d+)?|(?<=[A-Za-z])\.\d+)"  # 3,5 and end.5: who knows what they are
    r"|(?P<digits>\d+(?:\.\d+)?)",
    re.ASCII,
)
_RANGE = lazy_pattern(r"\d{1,4}-\d{1,4}")  # 3-5 are two numbers
_SCIENTIFIC = lazy_pattern(r"(?P<base>[\d.]+)(?:[eE](?P<e>.+)| ?[×*] ?10\^?(?P<ten>.+)|(?P<power>.+))")
# Before an amount: $5, US$5, RMB 5, 人民币5
_CURRENCY = lazy_pattern(r"(?P<sign>-?(?:US|HK)?[$€£¥]|(?<![A-Za-z])(?:USD|RMB|CNY|EUR|JPY|HKD|GBP)|人民币)\s?$")
_CODES = {"US$": ("USD",), "HK$": ("HKD",), "RMB": ("CNY",), "人民币": ("CNY",)} | CURRENCY_SIGNS
_ANY_DIGITS = lazy_pattern(r"\d+(?:[.,' ]\d{3})*(?:[.,]\d+)?")
NEAR = 30  # characters before a number that may belong to it
_NEVER_A_NUMBER = 16  # digits: more than a float holds


@dataclass(frozen=True)
class Number:
    """A number before its unit is known."""

    start: int
    stop: int
    readings: frozenset[Reading]
    certain: bool = True

    @property
    def values(self) -> list[float]:
        """Its values that are finite (1.8e308 is not), the largest first: of "fifth" 5, then 1/5."""
        values = (value for dimension, value in self.readings if dimension == "number" and isinstance(value, float))
        return sorted(filter(math.isfinite, values), reverse=True)  # a set has another order in each process


def has_numeric(text: str, but: str = "") -> bool:
    """Whether there is a numeral outside ASCII, other than those in `but`: ½, ②, 〇."""
    if text.isascii():
        return False
    return any(one.isnumeric() for one in set(text).difference(but) if one > "\x7f")


def hide_literals(text: str) -> tuple[str, list[Number]]:
    """The text with spaces in place of URLs and code, and the pieces of code that have digits."""
    codes, parts, done = [], [], 0
    for span in scan(text) if any(one.isdigit() for one in text) else ():
        if span.kind in ("url", "email", "code"):
            piece = span.of(text)
            if _RANGE.fullmatch(piece):
                continue
            if any(one.isdigit() for one in piece):
                codes.append(Number(span.start, span.stop, frozenset(_code_readings(piece))))
            parts += [text[done : span.start], " " * len(piece)]
            done = span.stop
    return "".join([*parts, text[done:]]), codes


def find_notations(text: str) -> list[Number]:
    """All numbers in digits, without signs and units."""
    found = []
    for match in _NOTATION.finditer(text):
        kind = str(match.lastgroup)
        found.append(Number(*match.span(), frozenset(_readings(kind, match[0]))))
    return found


def find_digits(text: str) -> tuple[Quantity, ...]:
    """The numbers in digits as quantities without units, for a language that is not known: 1.234,5 equals 1,234.5."""
    return tuple(
        Quantity(*match.span(), frozenset([("code", re.sub(r"\D", "", match[0]))]), number=match.span())
        for match in _ANY_DIGITS.finditer(text)
    )


def _code_readings(piece: str) -> set[Reading]:
    found: set[Reading] = {("code", piece)}
    over = re.fullmatch(r"(\d{1,9})/(\d{1,9})", piece)
    if over and int(over[2]):
        found.add(reading("number", int(over[1]) / int(over[2])))
    return found


def _readings(kind: str, text: str) -> set[Reading]:
    match kind:
        case "plain" | "digits" | "grouped":
            return plain_readings(text.replace(" ", ""))
        case "roman":
            return {reading("number", _roman(text))}
        case "time":
            hours, minutes, *_ = (int(part) for part in re.split("[:：]", text))
            readings = clock_readings(hours, minutes) | {("ratio", f"{hours}:{minutes:02}")}
            return readings | {("clock", float(60 * hours + minutes))}
        case "scientific":
            return {("code", text), *_scientific(text)}
        case "vulgar":
            whole = re.match(r"\d*", text)
            assert whole is not None
            value = unicodedata.numeric(text[-1]) + (float(whole[0]) if whole[0] else 0.0)
            return {("code", text), reading("number", value)}
        case "ratio":
            return {("ratio", re.sub("[：∶]", ":", text))}
        case "point":
            return {reading("number", float(text))}
        case "permille":
            return {reading("percent", float(text.rstrip("‰ ")) / 10)}
        case _:  # code, formula, sum, odd
            return {("code", re.sub(r"\s", "", text).casefold())}


def _roman(text: str) -> float:
    values = [{"I": 1, "V": 5, "X": 10}[letter] for letter in text]
    return float(sum(-one if one < after else one for one, after in zip(values, [*values[1:], 0], strict=True)))


def plain_readings(digits: str) -> set[Reading]:
    """Of 1,234.5; a number that begins with 0 or is very long is a code, which is not to be written otherwise."""
    whole = digits.replace(",", "")
    is_code = whole.isdigit() and ((whole[0] == "0" and len(whole) > 1) or len(whole) >= _NEVER_A_NUMBER)
    return {("code", whole)} if is_code else {reading("number", float(whole))}


def clock_readings(hours: int, minutes: int) -> set[Reading]:
    """A time of day without "am" or "pm": of the 24 hours if it can only be that, else of the 12."""
    at = 60 * hours + minutes
    return {("clock", float(at % 1440))} if hours > 12 or hours == 0 else {("clock12", float(at % 720))}


def _scientific(text: str) -> set[Reading]:
    match = _SCIENTIFIC.fullmatch(text.replace("−", "-"))
    assert match is not None
    exponent = (match["e"] or match["ten"] or match["power"]).translate(_SUPERSCRIPTS)
    base = float(match["base"])
    try:
        return {reading("number", base ** int(exponent) if match["power"] else base * 10.0 ** int(exponent))}
    except (OverflowError, ValueError, ZeroDivisionError):
        return set()


def read_money(text: str, number: Number) -> Quantity | None:
    """The amount, if there is a currency before the number."""
    match = _CURRENCY.search(text[max(number.start - 6, 0) : number.start])
    if not match or not number.values:
        return None
    sign = match["sign"].lstrip("-")
    codes = _CODES.get(sign, (sign,))
    readings = frozenset(reading(code, value) for code in codes for value in number.values)
    start = number.start - len(match[0])
    unit, value, span = CURRENCY_UNITS[codes[0]], max(number.values), (number.start, number.stop)
    if match["sign"].startswith("-"):
        return Quantity(start, number.stop, negative(readings), number.certain, span, unit, -value)
    return Quantity(start, number.stop, readings, number.certain, span, unit, value)
