"""Dates, from Chinese to English and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.guards.chinese import CHINESE
from regard.guards.dates import find_dates, remove_date_commas, repair_months, translate_date
from regard.guards.english import ENGLISH
from regard.guards.language_pair import LanguagePair, find_language_pair
from regard.guards.numbers import MONTHS
from regard.text.scripts import has_han

ZH_EN, EN_ZH = find_language_pair("zh", "en"), find_language_pair("en", "zh")


@pytest.mark.parametrize(
    ("text", "pair", "dates"),
    [
        ("他1990年5月3日出生。", ZH_EN, ["May 3, 1990"]),
        ("3月5号和2024年3月", ZH_EN, ["March 5", "March 2024"]),
        ("3个月，15日", ZH_EN, []),
        ("He was born on May 3, 1990.", EN_ZH, ["1990年5月3日"]),
        ("the 5th of July, June 12th, March 2024", EN_ZH, ["7月5日", "6月12日", "2024年3月"]),
        ("I may come in May.", EN_ZH, []),
    ],
)
def test_dates_are_found_and_translated(text: str, pair: LanguagePair, dates: list[str]) -> None:
    assert [translate_date(span.of(text), pair) for span in find_dates(text, pair.source)] == dates


@given(st.integers(1900, 2099), st.integers(1, 12), st.integers(1, 31))
def test_round_trip(year: int, month: int, day: int) -> None:
    date = f"{year}年{month}月{day}日"
    english = translate_date(date, ZH_EN)
    assert english == f"{MONTHS[month - 1]} {day}, {year}"
    assert translate_date(english, EN_ZH) == translate_date(remove_date_commas(english, ENGLISH), EN_ZH) == date
    assert remove_date_commas(date, CHINESE) == date


@pytest.mark.parametrize(
    ("source", "wrong", "right"),
    [
        ("3月5日", "December 5th", "March 5th"),
        ("三月和五月", "In April and in June", "In March and in May"),
        ("In May 1990", "在1990年3月", "在1990年5月"),
        ("You may go in March", "你可以在五月去", "你可以在3月去"),
        ("3月", "It is in spring.", "It is in spring."),
        ("3月", "March", "March"),
    ],
)
def test_wrong_months_are_replaced(source: str, wrong: str, right: str) -> None:
    assert repair_months(source, wrong, ZH_EN if has_han(source) else EN_ZH) == right
