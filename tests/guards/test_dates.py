"""Dates, from Chinese to English and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.guards.dates import find_dates, mend_months, other_way, without_commas
from regard.guards.numbers import MONTHS


@pytest.mark.parametrize(
    ("text", "chinese", "dates"),
    [
        ("他1990年5月3日出生。", True, ["May 3, 1990"]),
        ("3月5号和2024年3月", True, ["March 5", "March 2024"]),
        ("3个月，15日", True, []),
        ("He was born on May 3, 1990.", False, ["1990年5月3日"]),
        ("the 5th of July, June 12th, March 2024", False, ["7月5日", "6月12日", "2024年3月"]),
        ("I may come in May.", False, []),
    ],
)
def test_dates_are_found_and_written(text: str, chinese: bool, dates: list[str]) -> None:
    assert [other_way(span.of(text), chinese) for span in find_dates(text, chinese)] == dates


@given(st.integers(1900, 2099), st.integers(1, 12), st.integers(1, 31))
def test_there_and_back(year: int, month: int, day: int) -> None:
    date = f"{year}年{month}月{day}日"
    english = other_way(date, chinese=True)
    assert english == f"{MONTHS[month - 1]} {day}, {year}"
    assert other_way(english, chinese=False) == other_way(without_commas(english, chinese=False), chinese=False) == date


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
def test_months_are_put_right(source: str, wrong: str, right: str) -> None:
    assert mend_months(source, wrong, chinese=not source.isascii()) == right
