"""Marks around a whole text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.guards.wrapping import translate_wrapping, unwrap


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
def test_unwrap(text: str, parts: tuple[str, str, str]) -> None:
    assert unwrap(text) == parts


@given(st.text())
def test_nothing_is_lost(text: str) -> None:
    assert "".join(unwrap(text)) == text


def test_wrapping_is_translated() -> None:
    assert translate_wrapping("「", "」", "en") == ('"', '"')
    assert translate_wrapping('"', '"', "zh") == ("“", "”")
    assert translate_wrapping("（", "）", "en") == ("(", ")")
    assert translate_wrapping("# ", "", "zh") == ("# ", "")
