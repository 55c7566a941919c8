"""Negations in Chinese and English, and those that a translation changes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.guards.changes import changed_negation
from regard.guards.language_pair import find_language_pair
from regard.guards.negations import (
    find_chinese_negations,
    find_english_negations,
    may_have_chinese_negations,
    may_have_english_negations,
)
from regard.text.scripts import has_han

ZH_EN, EN_ZH = find_language_pair("zh", "en"), find_language_pair("en", "zh")


@pytest.mark.parametrize(
    ("source", "translation"),
    [
        ("我不知道。", "I don't know."),
        ("他没来。", "He hasn't come."),
        ("别碰它。", "Never touch it."),
        ("他的中文不错。", "His Chinese is good."),
        ("差不多了。", "Almost."),
        ("没关系。", "It's all right."),
        ("你是不是医生？", "Are you a doctor?"),
        ("非常好。", "Very good."),
        ("别人都走了。", "The others have left."),
        ("我不得不走。", "I have to go."),
        ("他很不高兴。", "He is very unhappy."),
        ("Nobody knows.", "没人知道。"),
        ("He left without me.", "他没带我就走了。"),
        ("You are tired, aren't you?", "你累了，对吗？"),
        ("Why don't we go?", "我们走吧？"),
        ("I couldn't help laughing.", "我忍不住笑了。"),
    ],
)
def test_kept(source: str, translation: str) -> None:
    assert changed_negation(source, translation, ZH_EN if has_han(source) else EN_ZH) is None


@pytest.mark.parametrize(
    ("source", "translation", "change"),
    [
        ("我不喜欢这本书。", "I like this book.", '"不" is missing'),
        ("我喜欢这本书。", "I don't like this book.", '"n\'t" was added'),
        ("Never touch it.", "碰它。", '"Never" is missing'),
        ("He left without me.", "他跟我走了。", '"without" is missing'),
        ("剂量是0.5毫克，不是5毫克。", "The dose is 0.5 mg, 5 mg.", '"不" is missing'),
    ],
)
def test_changed(source: str, translation: str, change: str) -> None:
    assert str(changed_negation(source, translation, ZH_EN if has_han(source) else EN_ZH)) == change


def test_other_languages_are_not_judged() -> None:
    assert changed_negation("I do not know.", "Ich weiß es nicht.", find_language_pair("en", "de")) is None


@given(
    st.text(alphabet="notevrbdyhigwucaislf'’ NT.", max_size=20)
    | st.text(alphabet="不没未别勿并非无法人绝毫的，。我", max_size=8)
)
def test_the_quick_look_overlooks_nothing(text: str) -> None:
    assert may_have_english_negations(text) or not find_english_negations(text).certain
    assert may_have_chinese_negations(text) or not find_chinese_negations(text).certain
