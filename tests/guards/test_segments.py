"""A text cut around what stays, and put together again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from regard.guards.segments import Stretch, cut_around, translate_marks, weave
from regard.text.entities import find_kept
from regard.text.normalise import normalise


def test_cut() -> None:
    text = "我爱你 ❤️你爱我吗"
    assert cut_around(text, find_kept(text, chinese=True)) == [
        Stretch("我爱你"),
        Stretch("❤️", kept=True, spaced=True),
        Stretch("你爱我吗"),
    ]
    assert cut_around("abc", []) == [Stretch("abc")]


@given(st.lists(st.sampled_from(["我", "爱", "hello", " ", "😀", "3", "`a`", "。", "https://x.org"]), max_size=20))
def test_nothing_is_lost(pieces: list[str]) -> None:
    text = normalise("".join(pieces))
    stretches = cut_around(text, find_kept(text, chinese=True))
    assert "".join(one.text for one in stretches).replace(" ", "") == text.replace(" ", "")
    assert weave(stretches, "zh").replace(" ", "") == text.replace(" ", "")
    assert all(one.text == one.text.strip() != "" for one in stretches)


def test_spaces_are_the_language_s() -> None:
    words = [Stretch("Please visit"), Stretch("https://x.org", kept=True), Stretch("for more"), Stretch(".")]
    assert weave(words, "en") == "Please visit https://x.org for more."
    assert (
        weave([Stretch("请访问"), Stretch("https://x.org", kept=True), Stretch("。")], "zh") == "请访问https://x.org。"
    )
    assert weave([Stretch("I love you."), Stretch("❤️", kept=True)], "en") == "I love you.❤️"
    assert weave([Stretch("I love you."), Stretch("❤️", kept=True, spaced=True)], "en") == "I love you. ❤️"
    assert weave([], "en") == ""


def test_marks_alone_are_translated() -> None:
    assert translate_marks("，", "en") == ","
    assert translate_marks("? ", "zh") == "？ "
    assert translate_marks("12:30", "zh") == "12:30"
