"""Dates, in Chinese and in English: 1990年5月3日, May 3, 1990. Both are written by rule, from the one to the other."""

from __future__ import annotations

import re
from collections.abc import Iterator

from regard.guards.numbers import MONTHS, values
from regard.text.entities import Span, change_at

_MONTH = f"(?:{'|'.join(MONTHS)})"
_DAY, _YEAR, _ORDINAL = "(?:3[01]|[12][0-9]|0?[1-9])", "(?:1[0-9]|20)[0-9]{2}", "(?:st|nd|rd|th)?"
_NUMBER = "(?:1[0-2]|0?[1-9])"
_CHINESE = re.compile(
    rf"(?<![0-9])(?:(?P<year>{_YEAR}) ?年 ?)?(?P<month>{_NUMBER}) ?月 ?(?P<day>{_DAY}) ?[日号號]"
    rf"|(?<![0-9])(?P<its_year>{_YEAR}) ?年 ?(?P<its_month>{_NUMBER}) ?月(?:份|(?![0-9]))"
)
_ENGLISH = re.compile(
    rf"\b(?P<month>{_MONTH}) (?P<day>{_DAY}){_ORDINAL}\b(?:,? (?P<year>{_YEAR})\b)?"
    rf"|\b(?:the )?(?P<early_day>{_DAY}){_ORDINAL} (?:of )?(?P<its_month>{_MONTH})\b(?:,? (?P<its_year>{_YEAR})\b)?"
    rf"|\b(?P<lone_month>{_MONTH}),? (?:of )?(?P<lone_year>{_YEAR})\b"
)
_CHINESE_MONTH = re.compile(rf"(?<![0-9]){_NUMBER}(?= ?月)|(?:十[一二]?|[一二三四五六七八九])(?=月)")
# May is a month where a day or a year comes after it, or a word before it that a verb does not have there.
_ENGLISH_MONTH = re.compile(rf"\b(?!May\b){_MONTH}\b|\bMay(?= \d)|(?<=\b[Ii]n )May\b|(?<=\bof )May\b")


def find_dates(text: str, chinese: bool) -> list[Span]:
    return [Span(*match.span(), "date") for match in (_CHINESE if chinese else _ENGLISH).finditer(text)]


def other_way(date: str, chinese: bool) -> str:
    """A date that was found, in the other language."""
    match = (_CHINESE if chinese else _ENGLISH).fullmatch(date)
    assert match is not None
    said = {name.rpartition("_")[2]: value for name, value in match.groupdict().items() if value}
    year, month, day = said.get("year", ""), said["month"], said.get("day", "").lstrip("0")
    if not chinese:
        number = MONTHS.index(month) + 1
        return (f"{year}年" if year else "") + f"{number}月" + (f"{day}日" if day else "")
    name = MONTHS[int(month) - 1]
    return f"{name} {day}" + (f", {year}" if year else "") if day else f"{name} {year}"


def without_commas(text: str, chinese: bool) -> str:
    """The text with dates that no clause ends in: May 3 1990."""
    return change_at(text, find_dates(text, chinese), lambda date: date.replace(", ", " "))


def mend_months(source: str, translation: str, chinese: bool) -> str:
    """Months that became others are put right, where there are as many of the one as of the other."""
    asked, written = list(months(source, chinese)), list(months(translation, not chinese))
    if len(asked) != len(written) or sorted(month for month, _ in asked) == sorted(month for month, _ in written):
        return translation
    for (month, _), (_, match) in reversed(list(zip(asked, written, strict=True))):
        right = MONTHS[month - 1] if chinese else str(month)
        translation = translation[: match.start()] + right + translation[match.end() :]
    return translation


def months(text: str, chinese: bool) -> Iterator[tuple[int, re.Match[str]]]:
    """The months of a text, from 1 to 12, and where they are named."""
    for match in (_CHINESE_MONTH if chinese else _ENGLISH_MONTH).finditer(text):
        yield (int(max(values(match[0]))) if chinese else MONTHS.index(match[0]) + 1), match
