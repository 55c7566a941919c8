"""Amounts, months and times of day that are translated by rule."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.guards.changes import changed_quantities
from regard.guards.language_pair import find_language_pair
from regard.guards.measures import find_measures, translate_measure, write_number
from regard.guards.units import CHINESE_UNIT, chinese_units

ZH_EN, EN_ZH = find_language_pair("zh", "en"), find_language_pair("en", "zh")


@pytest.mark.parametrize(
    ("source", "translation"),
    [
        ("0.5毫克", "0.5 mg"),
        ("五公里", "5 km"),
        ("三天", "3 days"),
        ("零下5摄氏度", "-5 °C"),
        ("5%", "5%"),
        ("20美元", "20 dollars"),
        ("一百日元", "100 yen"),
        ("下午三点半", "3:30 p.m."),
        ("六月", "June"),
        ("时速80公里", "80 km/h"),
    ],
)
def test_to_english(source: str, translation: str) -> None:
    [one] = ZH_EN.find_quantities(source, "source")
    assert translate_measure(one, to_chinese=False) == translation


@pytest.mark.parametrize(
    ("source", "translation"),
    [
        ("5 mg", "5毫克"),
        ("$2.50", "2.5美元"),
        ("three weeks", "3周"),
        ("3:30 pm", "15点30分"),
        ("June", "6月"),
        ("5 GB", "5吉字节"),
    ],
)
def test_to_chinese(source: str, translation: str) -> None:
    [one] = EN_ZH.find_quantities(source, "source")
    assert translate_measure(one, to_chinese=True) == translation


@given(
    st.integers(2, 99_999),
    st.sampled_from(["毫克", "公斤", "米", "公里", "升", "摄氏度", "美元", "小时", "天", "平方米", "%"]),
)
def test_what_the_rules_write_equals_its_source(number: int, unit: str) -> None:
    source = f"{number}{unit}"
    [span] = find_measures(source, ZH_EN)
    written = translate_measure(ZH_EN.find_quantities(span.of(source), "source")[0], to_chinese=False)
    assert changed_quantities(source, written, ZH_EN) == ([], [])


def test_numbers_are_written_without_exponents() -> None:
    assert [write_number(one) for one in (5.0, 0.5, 12_345.0, 1e-7, 1e12)] == [
        *("5", "0.5", "12,345", "0.0000001"),
        "1,000,000,000,000",
    ]


def test_measures_of_other_languages_are_left_to_the_model() -> None:
    assert find_measures("It is 5 km.", find_language_pair("en", "de")) == []
    assert [span.of("It is 5 km.") for span in find_measures("It is 5 km.", EN_ZH)] == ["5 km"]


def test_units_are_found_at_their_longest() -> None:
    match = CHINESE_UNIT.match("平方公里")
    assert match is not None
    assert [unit.dimension for unit in chinese_units(match)] == ["area"]
