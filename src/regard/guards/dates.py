"""Dates with a month and a day or a year: 1990年5月3日, May 3, 1990. They are translated by rule."""

from __future__ import annotations

import re
from collections.abc import Iterator

from regard.guards.language_pair import LanguagePair
from regard.guards.language_rules import Date, LanguageRules
from regard.text.patterns import lazy_pattern
from regard.text.spans import Span, map_spans

_DIGIT = lazy_pattern("[0-9]")  # every date has one


def find_dates(text: str, language: LanguageRules) -> list[Span]:
    if not _DIGIT.search(text):
        return []
    return [Span(*match.span(), "date") for match in language.date_pattern.finditer(text)]


def read_date(text: str, language: LanguageRules) -> Date:
    """The parts of a date that `find_dates` has found."""
    match = language.date_pattern.fullmatch(text)
    assert match is not None
    parts = {name.rpartition("_")[2]: value for name, value in match.groupdict().items() if value}
    month = language.read_month(parts["month"])
    return Date(text, parts.get("year", ""), month, parts.get("day", "").lstrip("0"))


def translate_date(text: str, pair: LanguagePair) -> str:
    return pair.target.write_date(read_date(text, pair.source))


def remove_date_commas(text: str, language: LanguageRules) -> str:
    """Remove the commas inside dates, so that no clause ends there: May 3 1990."""
    return map_spans(text, find_dates(text, language), lambda date: date.replace(", ", " "))


def repair_months(source: str, translation: str, pair: LanguagePair) -> str:
    """Replace the months of the translation by those of the source, if they differ and there are as many."""
    wanted = list(find_months(source, pair.source))
    if not wanted:
        return translation
    written = list(find_months(translation, pair.target))
    if len(wanted) != len(written) or sorted(month for month, _ in wanted) == sorted(month for month, _ in written):
        return translation
    for (month, _), (_, match) in reversed(list(zip(wanted, written, strict=True))):
        translation = translation[: match.start()] + pair.target.write_month(month) + translation[match.end() :]
    return translation


def find_months(text: str, language: LanguageRules) -> Iterator[tuple[int, re.Match[str]]]:
    """The number of each month, from 1 to 12, and its match."""
    if not language.any_month.search(text):
        return
    for match in language.month_pattern.finditer(text):
        yield language.read_month(match[0]), match
