"""Quantities in Chinese and English text, and their comparison."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from regard.guards.chinese_quantities import find_chinese_quantities, may_have_chinese_quantities
from regard.guards.english_quantities import find_english_quantities, may_have_english_quantities
from regard.guards.quantities import Quantity, differences, reading
from regard.text.normalise import normalise
from regard.text.scripts import has_han


def find(text: str) -> list[Quantity]:
    text = normalise(text)
    return find_chinese_quantities(text) if has_han(text) else find_english_quantities(text)


@pytest.mark.parametrize(
    ("text", "dimension", "value"),
    [
        ("质量是1e-7公斤", "mass", 1e-7),
        ("The error is 2.5e-3.", "number", 2.5e-3),
        ("The probability is .05.", "number", 0.05),
        ("There are 1,234.5 of them.", "number", 1234.5),
        ("有1 234个", "number", 1234),
        ("It is ½ full.", "number", 0.5),
        ("2½ hours", "time", 9000),
        ("四分之三", "number", 0.75),
        ("two thirds", "number", 0.666666667),
        ("盐度是3‰。", "percent", 0.3),
        ("千分之三", "percent", 0.3),
        ("百分之五", "percent", 5),
        ("five percent", "percent", 5),
        ("今天−5 °C。", "celsius", -5),
        ("零下五度", "celsius", -5),
        ("minus 5 degrees Celsius", "celsius", -5),
        ("5 degrees below zero", "celsius", -5),
        ("10³ of them", "number", 1000),
        ("Henry IV", "number", 4),
        ("三百多万人", "number", 3e6),
        ("两万五", "number", 25_000),
        ("二〇二四年", "number", 2024),
        ("１２个", "number", 12),
        ("叁佰元", "CNY", 300),
        ("比例是1:3", "ratio", "1:3"),
        ("版本v2.3.1", "code", "v2.3.1"),
        ("下午三点", "clock", 900),
        ("14:30", "clock", 870),
        ("at 3 pm", "clock", 900),
        ("half past two", "clock12", 150),
        ("差一刻九点", "clock12", 525),
        ("$5", "USD", 5),
        ("¥3.50", "CNY", 3.5),
        ("5 euros", "EUR", 5),
        ("五块钱", "CNY", 5),
        ("三块五", "CNY", 3.5),
        ("四元五毛", "CNY", 4.5),
        ("0.5毫克", "mass", 0.5e-6),
        ("时速100公里", "speed", 100),
        ("100 kilometers per hour", "speed", 100),
        ("一米七", "length", 1.7),
        ("两周", "time", 1_209_600),
        ("a fortnight", "time", 1_209_600),
        ("一个半小时", "time", 5400),
        ("an hour and a half", "time", 5400),
        ("五月", "month", 5),
        ("three point five", "number", 3.5),
        ("20世纪30年代", "decade", 30),
        ("IV+3277194070=IV", "code", "iv+3277194070=iv"),
        ("http://a.cn/5号", "code", "http://a.cn/5"),
        ("It is 3/4 full.", "number", 0.75),
        ("1e400", "code", "1e400"),
        ("-$5", "USD", -5),
        ("圆周率是三点一四", "number", 3.14),
        ("三点五度", "celsius", 3.5),
        ("百万分之一", "number", 1e-6),
        ("三百分之一", "number", 1 / 300),
        ("万分之五", "percent", 0.05),
        ("百分百确定", "percent", 100),
        ("one millionth", "number", 1e-6),
        ("the sixteenth", "number", 16),
        ("the 19th century", "century", 19),
        ("the fifth kilometre", "number", 5),
        ("a second", "time", 1),
        ("a second look", "number", 2),
        ("a third", "number", 1 / 3),
        ("three and a half", "number", 3.5),
        ("three and a half million", "number", 3.5e6),
        ("at noon", "clock", 720),
        ("中午见", "clock", 720),
        ("daily", "time", 86_400),
        ("十五点", "clock", 900),
        ("早上八点", "clock", 480),
        ("3 o'clock pm", "clock", 900),
        ("twenty past three", "clock12", 200),
        ("20 minutes to three", "clock12", 160),
        ("He walked past three houses.", "number", 3),
        ("5 degrees Celsius", "celsius", 5),
        ("50 degrees Fahrenheit", "fahrenheit", 50),
        ("50 Degrees fahrenheit", "fahrenheit", 50),
        ("50 FEET", "length", 15.24),
        ("3 milliamp-hours", "charge", 3),
        ("十二月", "month", 12),
        ("三到五点", "clock12", 180),
        ("one p.m.", "clock", 780),
    ],
)
def test_readings(text: str, dimension: str, value: float | str) -> None:
    wanted = (dimension, value) if isinstance(value, str) else reading(dimension, value)
    assert any(wanted in one.readings for one in find(text)), [one.readings for one in find(text)]


@pytest.mark.parametrize(
    "text",
    [
        "一定",
        "两手空空",
        "百分之",
        "十分好",
        "万一",
        "一起走吧",
        "星期三",
        "三明治",
        "四川",
        "几十个",
        "乱七八糟",
        "I have a cat.",
        "one by one",
    ],
)
def test_words_that_need_no_equal(text: str) -> None:
    assert not any(one.certain for one in find(text))


@pytest.mark.parametrize(
    ("source", "translation"),
    [
        ("我有三个苹果", "I have three apples."),
        ("他高2000米", "It is 2 km high."),
        ("两天", "a couple of days"),
        ("三四个人", "three or four people"),
        ("3-5天", "three to five days"),
        ("下午三点", "three in the afternoon"),
        ("三点", "3 p.m."),
        ("$5", "五美元"),
        ("一个苹果", "an apple"),
        ("90年代", "the nineties"),
        ("第二个", "the second one"),
        ("三十多年", "more than thirty years"),
        ("十多个人", "more than ten people"),
        ("50华氏度", "50 degrees Fahrenheit"),
        ("百万分之一", "one millionth"),
        ("九减六", "nine minus six"),
        ("三分之几", "some of the three parts"),
    ],
)
def test_equal(source: str, translation: str) -> None:
    assert differences(find(source), find(translation)) == ([], [])


@pytest.mark.parametrize(
    ("source", "translation", "missing", "added"),
    [
        ("质量是1e-7公斤。", "The quality is 1 kilogram.", 1, 1),
        ("剂量是5毫克", "The dose is 5 kilometres.", 1, 1),
        ("剂量是5毫克", "The dose is 5.", 1, 1),
        ("5公里/小时", "5 km", 1, 1),
        ("下午三点", "three in the morning", 1, 1),
        ("$5", "五元", 1, 1),
        ("-5°C", "5 °C", 1, 1),
        ("50摄氏度", "50 degrees Fahrenheit", 1, 1),
        ("百万分之一", "0.01%", 1, 1),
        ("5公里", "the fifth kilometre", 1, 1),
        ("两个人和两只猫", "two people", 1, 0),
        ("我看书", "I read 20 books.", 0, 1),
    ],
)
def test_different(source: str, translation: str, missing: int, added: int) -> None:
    found = differences(find(source), find(translation))
    assert (len(found[0]), len(found[1])) == (missing, added)


@given(
    st.text(alphabet="0123456789.,:-/½¾‰°C$¥eE+=^²³ 一二三百万点分半个年月元毫克公里 kgmpIVXthreeandhalf", max_size=40)
)
def test_any_text(text: str) -> None:
    for quantities in (find_chinese_quantities(text), find_english_quantities(text)):
        assert differences(quantities, quantities) == ([], [])
        assert all(0 <= one.start <= one.stop <= len(text) and one.readings for one in quantities)


@given(st.integers(0, 10**9), st.sampled_from(["{}", "{:,}"]))
def test_digits_with_and_without_commas(number: int, form: str) -> None:
    assert [one.readings for one in find(form.format(number))] == [frozenset([reading("number", number)])]


_SOME_WORDS = (
    "a|an|one|first|the|another|half|quarter|two|five|dozen|hundred|million|second|third|thirds|point|oh|zero|of|in|no|"
    "kilogram|kg|m|metres|feet|dollar|percent|day|year|century|o'clock|p.m.|am|morning|evening|at|past|March|May|to|"
    "k|K|minus|below|twenties|VI|I|$|%|½|²|=|-|.|,|3"
)
_CHARACTERS = "一十百半两零〇点分时世纪第几公斤块元天个壹拾叁下午早上差刻多百分之的=%½kgVI3 "


@given(st.lists(st.sampled_from(_SOME_WORDS.split("|")), max_size=6))
@example(["one", "p.m."])
def test_the_quick_look_at_english_overlooks_nothing(words: list[str]) -> None:
    text = " ".join(words)
    assert may_have_english_quantities(text) or not any(one.certain for one in find_english_quantities(text))


@given(st.text(alphabet=_CHARACTERS, max_size=8))
def test_the_quick_look_at_chinese_overlooks_nothing(text: str) -> None:
    assert may_have_chinese_quantities(text) or not any(one.certain for one in find_chinese_quantities(text))


def test_the_quick_look_spares_ordinary_sentences() -> None:
    assert not may_have_english_quantities("I'm a student, and she was the only one in the house for a day.")
    assert not may_have_chinese_quantities("我是一个学生，有一天没有人在家。")


@pytest.mark.parametrize(
    "text",
    [
        "1.8e308",
        "1.8e308点",
        f"一{'亿' * 60}公斤",
        "one " + "hundred " * 200,
        "1e308 thousand",
        "1e308千米",
        "二" * 400,
    ],
)
def test_more_than_a_float_holds(text: str) -> None:
    for quantities in (find_chinese_quantities(text), find_english_quantities(text)):
        assert differences(quantities, quantities) == ([], [])
