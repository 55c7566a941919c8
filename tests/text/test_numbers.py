"""The numbers that a text speaks of."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.text.numbers import find_numbers, values


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("3", 3),
        ("three apples", 3),
        ("三个", 3),
        ("两个人", 2),
        ("三十五", 35),
        ("一百二十三", 123),
        ("10万", 100_000),
        ("十万", 100_000),
        ("100,000", 100_000),
        ("a hundred thousand", 100_000),
        ("一万二千", 12_000),
        ("三亿", 300_000_000),
        ("5 million", 5_000_000),
        ("五百万", 5_000_000),
        ("twenty-three", 23),
        ("twenty-three thousand", 23_000),
        ("二零二四年", 2024),
        ("两点半", 30),
        ("a quarter past three", 15),
        ("May 3rd", 5),
        ("第一", 1),
        ("twelfth", 12),
        ("a dozen", 12),
        ("3.5%", 3.5),
    ],
)
def test_in_words_and_digits(text: str, number: float) -> None:
    assert number in values(text)


def test_no_number() -> None:
    assert values("hello 你好!") == frozenset()


@given(st.integers(0, 10**12))
def test_digits_with_and_without_commas(number: int) -> None:
    assert values(str(number)) == values(f"{number:,}") == {number}


@given(st.text(max_size=60))
def test_any_text(text: str) -> None:
    values(text)
    for start, stop, _ in find_numbers(text):
        assert text[start:stop].strip()


def test_where_numbers_are() -> None:
    assert find_numbers("I may have five cats, a dog and 20,") == [(11, 15, 5), (32, 34, 20.0)]
    assert find_numbers("一起吃了三十个") == [(4, 6, 30.0)]
