"""Numbers in digits and in words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.guards.numbers import find_numbers, number_values, numbers_to_digits


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
        ("1亿2000万", 120_000_000),
        ("1.2万亿", 1.2e12),
        ("三万亿", 3e12),
        ("1.2 trillion", 1.2e12),
        ("2602亿", 260.2e9),
        ("260.2 billion", 260_200_000_000),
        ("half a million", 500_000),
        ("$2.5m", 2_500_000),
        ("$55 k", 55_000),
        ("one hundred and fifty people", 150),
        ("three million, seven hundred and forty one thousand", 3_741_000),
        ("nineteen ninety-four", 1994),
        ("the twenty-first century", 21),
        ("two dozen", 24),
        ("the last hundred years", 100),
        ("五十千米", 50),
        ("三千米", 3000),
        ("我们俩", 2),
    ],
)
def test_in_words_and_digits(text: str, number: float) -> None:
    assert number in number_values(text)


def test_no_number() -> None:
    assert number_values("hello 你好!") == frozenset()


@given(st.integers(0, 10**12))
def test_digits_with_and_without_commas(number: int) -> None:
    assert number_values(str(number)) == number_values(f"{number:,}") == {number}


@given(st.text(max_size=60))
def test_any_text(text: str) -> None:
    number_values(text)
    for start, stop, _ in find_numbers(text):
        assert text[start:stop].strip()


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("我有37万块钱", "我有370,000块钱"),
        ("1亿2000万人", "120,000,000人"),
        ("5 million people", "5,000,000 people"),
        ("1.2万亿", "1,200,000,000,000"),
        ("3千克、2千米、百分之百", "3千克、2千米、百分之百"),
        ("3,5 million", "3,5 million"),  # a decimal, somewhere
        ("9" * 400 + "万", "9" * 400 + "万"),
    ],
)
def test_scaled_numbers_to_digits(text: str, plain: str) -> None:
    assert numbers_to_digits(text) == plain


@given(st.text(alphabet="19,.万亿千百 million", max_size=60))
def test_any_scaled_number(text: str) -> None:
    numbers_to_digits(text)
    number_values(text)
    find_numbers(text)


def test_where_numbers_are() -> None:
    assert find_numbers("I may have five cats, a dog and 20,") == [(11, 15, 5), (32, 34, 20.0)]
    assert find_numbers("一起吃了三十个") == [(4, 6, 30.0)]
    assert find_numbers("36万人, 360 thousand") == [(0, 3, 360_000.0), (6, 18, 360_000.0)]
    assert find_numbers("三只猫星期三吃三明治") == [(0, 1, 3.0)]


@pytest.mark.parametrize(
    ("text", "digits"),
    [
        ("I am twenty-five years old.", "I am 25 years old."),
        ("one hundred and twenty-three", "123"),
        ("五月有三十一天", "5月有31天"),
        ("我有一百二十三个苹果。", "我有123个苹果。"),
        ("二〇二四年", "2024年"),
        ("两个人，十五点", "2个人，15点"),
        ("Ken七月来", "Ken 7月来"),
        ("five six seven", "5 6 7"),
        ("twenty or thirty, one by one", "20 or 30, one by one"),
    ],
)
def test_numbers_in_words_are_put_numbers_to_digits(text: str, digits: str) -> None:
    assert numbers_to_digits(text) == digits


@pytest.mark.parametrize(
    "text", ["十分好", "七八个人", "星期三", "第三个", "三分之一", "一个", "万一", "千万别去", "几十个", "三明治"]
)
def test_words_that_only_look_like_numbers(text: str) -> None:
    assert numbers_to_digits(text) == text
