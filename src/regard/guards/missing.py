"""Numbers, names and dates of the source that are missing from a translation, and the repair of numbers."""

from __future__ import annotations

import re

from regard.guards.dates import find_dates, read_date
from regard.guards.entities import checked, find_entities
from regard.guards.language_pair import LanguagePair
from regard.guards.numbers import abbreviated_values, digits_value, find_numbers, number_values, numbers_to_digits
from regard.text.spans import Span

_DIGITS = re.compile(r"\d[\d,]*(?:\.\d+)?")
# Signs and units of a number, each with the ways to write it in a translation.
_UNITS = (
    (re.compile("[$€£¥]"), re.compile("[$€£¥元块塊镑鎊钱錢]|dollar|euro|pound|yuan|yen|buck|rmb|cent", re.IGNORECASE)),
    (re.compile("^-"), re.compile(r"[-−–]\s?\d|负|負|零下|minus|negative|below", re.IGNORECASE)),
    (re.compile("[°℃℉]"), re.compile("[°℃℉度]|degree|celsius|fahrenheit", re.IGNORECASE)),
)


def missing_entities(source: str, translation: str, pair: LanguagePair) -> list[str]:
    """The entities of the source that are not in the translation; numbers in digits: 37万 as 370,000."""
    source = numbers_to_digits(source)
    numbers = number_values(translation)
    dates = [read_date(span.of(source), pair.source) for span in find_dates(source, pair.source)]
    missing = [date.text for date in pair.target.missing_dates(dates, translation)]
    for span in checked(find_entities(source, pair.source)):
        entity = span.of(source)
        on_the_hour = entity == "00" and source[span.start - 1] in ":："
        if occurrence(entity).search(translation) or on_the_hour:
            continue
        if span.kind == "name" or not _has_number(source, span, numbers) or _is_unit_missing(entity, translation):
            missing.append(entity)
    return missing


def occurrence(entity: str) -> re.Pattern[str]:
    """Finds a number or a name, in upper or lower case, singular or plural, but not inside another."""
    if not entity[0].isalpha():
        return re.compile(rf"(?<![\d.]){re.escape(entity)}(?!\d)")
    return re.compile(rf"(?<![A-Za-z]){re.escape(entity)}(?=s?(?![A-Za-z]))", re.IGNORECASE)


def _has_number(source: str, span: Span, numbers: frozenset[float]) -> bool:
    found = _DIGITS.search(span.of(source))
    assert found is not None
    after = source[span.start + found.end() : span.start + found.end() + 3]
    return _is_quantity(found[0]) and _has_quantity(found[0], after, numbers)


def _is_unit_missing(number: str, translation: str) -> bool:
    """Whether the translation lacks the currency, the degrees or the minus sign of a number."""
    return any(unit.search(number) and not written.search(translation) for unit, written in _UNITS)


def _is_quantity(digits: str) -> bool:
    """Whether the number is a quantity, and not a telephone or account number."""
    return not (digits.startswith("0") and digits.isdigit() and len(digits) > 1) and (len(digits) < 10 or "," in digits)


def _has_quantity(digits: str, after: str, numbers: frozenset[float]) -> bool:
    """Whether the translation has the number, or its value together with the text after it: 10 k, 15 点."""
    value = digits_value(digits)
    possible = {value, *abbreviated_values(value, after)}
    if after.startswith(("s", "'s", "’s")):
        possible.add(value % 100)  # the 1990s: 90年代
    elif after.startswith("年代"):
        possible |= {1900 + value, 2000 + value}
    elif after.startswith(("世纪", "世紀")):
        possible |= {number for number in numbers if 0 <= number - 100 * (value - 1) < 100}  # 20世纪30年代: the 1930s
    elif after[:1] in (":", "点", "时", "點") and value > 12:
        possible.add(value - 12)  # in the afternoon
    elif after.lstrip().startswith("p"):
        possible.add(value + 12)
    return not possible.isdisjoint(numbers)


def repair_numbers(source: str, translation: str, pair: LanguagePair) -> str:
    """Replace wrong numbers by the missing ones, in order, if there are as many of either."""
    missing = [entity for entity in missing_entities(source, translation, pair) if _DIGITS.search(entity)]
    for number in missing:
        if number[0] in "$€£¥":  # restore the currency
            translation = occurrence(number[1:]).sub(lambda _, number=number: number, translation, count=1)  # type: ignore[misc]
    missing = [number for number in missing if number[0].isdigit() and _DIGITS.fullmatch(number.rstrip("%℃℉°CF "))]
    known = number_values(numbers_to_digits(source))
    wrong = [number for number in find_numbers(translation) if number[2] not in known]
    if not missing or len(missing) != len(wrong):
        return translation
    for number, (start, stop, _) in reversed(list(zip(missing, wrong, strict=True))):
        translation = translation[:start] + _DIGITS.findall(number)[0] + translation[stop:]
    return translation
