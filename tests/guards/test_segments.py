"""Splitting a text into segments, and joining them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from regard.guards.chinese import CHINESE
from regard.guards.entities import find_entities
from regard.guards.segments import Segment, join_segments, split_at_spans, translate_punctuation
from regard.text.normalise import normalise


def test_split() -> None:
    text = "我爱你 ❤️你爱我吗"
    assert split_at_spans(text, find_entities(text, CHINESE)) == [
        Segment("我爱你"),
        Segment("❤️", verbatim=True, space_before=True),
        Segment("你爱我吗"),
    ]
    assert split_at_spans("abc", []) == [Segment("abc")]


@given(st.lists(st.sampled_from(["我", "爱", "hello", " ", "😀", "3", "`a`", "。", "https://x.org"]), max_size=20))
def test_nothing_is_lost(pieces: list[str]) -> None:
    text = normalise("".join(pieces))
    segments = split_at_spans(text, find_entities(text, CHINESE))
    assert "".join(one.text for one in segments).replace(" ", "") == text.replace(" ", "")
    assert join_segments(segments, "zh").replace(" ", "") == text.replace(" ", "")
    assert all(one.text == one.text.strip() != "" for one in segments)


def test_spacing_follows_the_language() -> None:
    words = [Segment("Please visit"), Segment("https://x.org", verbatim=True), Segment("for more"), Segment(".")]
    assert join_segments(words, "en") == "Please visit https://x.org for more."
    assert (
        join_segments([Segment("请访问"), Segment("https://x.org", verbatim=True), Segment("。")], "zh")
        == "请访问https://x.org。"
    )
    assert join_segments([Segment("I love you."), Segment("❤️", verbatim=True)], "en") == "I love you.❤️"
    assert (
        join_segments([Segment("I love you."), Segment("❤️", verbatim=True, space_before=True)], "en") == "I love you. ❤️"
    )
    assert join_segments([], "en") == ""


def test_punctuation_is_translated() -> None:
    assert translate_punctuation("，", "en") == ","
    assert translate_punctuation("? ", "zh") == "？ "
    assert translate_punctuation("12:30", "zh") == "12:30"
