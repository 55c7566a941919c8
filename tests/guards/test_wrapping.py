"""Marks around a whole text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.guards.wrapping import marks_of, unwrap


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("(hello)", ("(", "hello", ")")),
        ("「你好」", ("「", "你好", "」")),
        ("# Heading", ("# ", "Heading", "")),
        ("- 我爱你。", ("- ", "我爱你。", "")),
        ("。你好", ("。", "你好", "")),
        ("**bold**", ("**", "bold", "**")),
        ("(a) and (b)", ("", "(a) and (b)", "")),
        ("2.5 km", ("", "2.5 km", "")),
        ("()", ("", "()", "")),
        ("- " * 5000 + "。# (a", ("- " * 5000 + "。# ", "(a", "")),
        ("。" * 5000, ("", "。" * 5000, "")),
    ],
)
def test_what_is_around_the_words(text: str, parts: tuple[str, str, str]) -> None:
    assert unwrap(text) == parts


@given(st.text())
def test_nothing_is_lost(text: str) -> None:
    assert "".join(unwrap(text)) == text


def test_marks_are_those_of_the_language() -> None:
    assert marks_of("「", "」", "en") == ('"', '"')
    assert marks_of('"', '"', "zh") == ("“", "”")
    assert marks_of("（", "）", "en") == ("(", ")")
    assert marks_of("# ", "", "zh") == ("# ", "")
