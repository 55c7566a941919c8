"""Numbers, names and dates of the source that are missing from a translation, and the repair of numbers."""

from __future__ import annotations

import math
import re

from regard.guards.changes import changed_quantities
from regard.guards.dates import find_dates, read_date
from regard.guards.entities import find_entities
from regard.guards.language_pair import LanguagePair
from regard.guards.measures import can_translate, translate_measure, write_number
from regard.guards.numbers import numbers_to_digits
from regard.guards.quantities import Quantity
from regard.text.patterns import lazy_pattern
from regard.text.sentences import is_unspaced

_BROKEN_NUMBER = lazy_pattern(r"\d,\d{1,2}(?!\d)|\d,\d{4}")  # 50,00


def missing_entities(source: str, translation: str, pair: LanguagePair) -> list[str]:
    """The names, dates and numbers with units of the source that are not in the translation, as written.

    Without numbers that no rule can write in the target language, such as "fifth".
    """
    dates = [read_date(span.of(source), pair.source) for span in find_dates(source, pair.source)]
    missing = [date.text for date in pair.target.missing_dates(dates, translation)]
    quantities = changed_quantities(source, translation, pair)[0]
    missing += [
        one.of(source) for one in quantities if can_translate(one) or _has_digit(numbers_to_digits(one.of(source)))
    ]
    names = (span.of(source) for span in find_entities(source, pair.source) if span.kind == "name")
    return missing + [
        name for name in names if not (is_written(name, translation) or occurrence(name).search(translation))
    ]


def is_written(name: str, text: str) -> bool:
    """Whether a text has a name as it is, singular or plural, but not inside another word."""
    at = text.find(name)
    while at >= 0:
        after = text[at + len(name) :]
        if not _is_letter(text[at - 1 : at]) and not _is_letter(after.removeprefix("s")[:1]):
            return True
        at = text.find(name, at + 1)
    return False


def _is_letter(character: str) -> bool:
    return character.isascii() and character.isalpha()


def occurrence(name: str) -> re.Pattern[str]:
    """Finds a name, in upper or lower case, singular or plural, but not inside another."""
    return re.compile(rf"(?<![A-Za-z]){re.escape(name)}(?=s?(?![A-Za-z]))", re.IGNORECASE)


def repair_numbers(source: str, translation: str, pair: LanguagePair) -> str:
    """Replace wrong numbers and units by the missing ones, in order, if there are as many of either."""
    missing, added = changed_quantities(source, translation, pair)
    if not missing or len(missing) != len(added) or _BROKEN_NUMBER.search(translation):
        return translation
    if any(one.is_code and not other.is_code for one, other in zip(added, missing, strict=True)):
        return translation  # what it means, and where it ends, is not known
    to_chinese = is_unspaced(pair.tgt_lang)
    for wanted, wrong in reversed(list(zip(missing, added, strict=True))):
        if can_translate(wanted) and pair.knows_words and not _same_unit(wanted, wrong):
            start, stop, right = wrong.start, wrong.stop, translate_measure(wanted, to_chinese)
        else:
            numbers = (float(value) for dimension, value in wanted.readings if dimension == "number")
            value = wanted.value if wanted.unit else max(numbers, default=None)  # "fifth": 5 and 1/5
            start, stop = wrong.number
            known = value if isinstance(value, float) and math.isfinite(value) else None
            right = wanted.of(source) if known is None else write_number(known)
        translation = translation[:start] + right + translation[stop:]
    return translation


def _same_unit(one: Quantity, other: Quantity) -> bool:
    """Whether only the numbers differ."""
    if not one.unit or not other.unit or not one.value or not other.value:
        return False
    factors = [{(dimension, float(value) / each.value) for dimension, value in each.readings} for each in (one, other)]
    return any(a == b and math.isclose(x, y) for a, x in factors[0] for b, y in factors[1] if a != "number")


def _has_digit(text: str) -> bool:
    return any(one.isdigit() for one in text)
