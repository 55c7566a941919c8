"""Missing entities, and the repair of numbers."""

from __future__ import annotations

import pytest

from regard.guards.language_pair import find_language_pair
from regard.guards.missing import missing_entities, repair_numbers
from regard.text.scripts import has_han

ZH_EN, EN_ZH = find_language_pair("zh", "en"), find_language_pair("en", "zh")


def test_missing_entities_are_named_as_written() -> None:
    assert missing_entities("我有37万块钱和NASA", "I have money.", ZH_EN) == ["37万块钱", "NASA"]
    assert missing_entities("On March 5, 2024.", "在3月2024日5年。", EN_ZH) == ["March 5, 2024", "5"]
    assert missing_entities("It costs $10.", "它要10美元。", EN_ZH) == []


@pytest.mark.parametrize(
    ("source", "wrong", "right"),
    [
        ("我有37个苹果", "I have 36 apples.", "I have 37 apples."),
        ("我有3只猫和2只狗。", "I have five cats and 20 dogs.", "I have 3 cats and 2 dogs."),
        ("There are 45 people.", "有四十个人。", "有45个人。"),
        ("我有3只猫", "I have three cats.", "I have three cats."),
        ("The fifth-largest house.", "第6大的房子。", "第5大的房子。"),  # not 0.2
        ("我有37个苹果", "I have apples.", "I have apples."),
        ("我有37万块钱", "I have 37,000 yuan.", "I have 370,000 yuan."),
        ("There are 370,000 people.", "有36万人。", "有370,000人。"),
        ("There are 5 million people.", "有五十万人。", "有5,000,000人。"),
        ("一张20世纪30年代的照片", "A 1930s photograph", "A 1930s photograph"),
        ("It costs $2.5m.", "它要250万美元。", "它要250万美元。"),
        ("The price is $1,299.99.", "价格是1,299.99。", "价格是1299.99美元。"),
        ("I am twenty-five years old.", "我二十岁。", "我25岁。"),
        ("我有一百二十三个苹果。", "I have three hundred apples.", "I have 123 apples."),
        ("The train leaves at 10:30.", "火车1点半出发。", "火车10点30分出发。"),
        ("It is 50 degrees Fahrenheit.", "现在50摄氏度。", "现在50华氏度。"),
        ("现在50华氏度。", "It is 50 degrees Celsius.", "It is 50 °F."),
        ("我有37个苹果", "I have 3,7 apples.", "I have 3,7 apples."),  # where a code ends is not known
        ("I ate 37 of them on Wednesday.", "我星期三吃了很多三明治。", "我星期三吃了很多三明治。"),
    ],
)
def test_wrong_numbers_are_replaced(source: str, wrong: str, right: str) -> None:
    assert repair_numbers(source, wrong, ZH_EN if has_han(source) else EN_ZH) == right
