"""Literals, and texts of nothing else."""

from __future__ import annotations

import pytest

from regard.text.literals import find_literals, has_only_literals


def test_names_and_foreign_words_are_not_literals() -> None:
    text = "NASA in 北京: 3 😀 https://x.org"
    assert [span.of(text) for span in find_literals(text)] == ["3", "😀", "https://x.org"]


@pytest.mark.parametrize("text", ["123", "😀", "https://x.org/a", "!!!", "…", "100%", "$5 😀 foo@x.org", "12:30", ""])
def test_nothing_to_translate(text: str) -> None:
    assert has_only_literals(text)


@pytest.mark.parametrize("text", ["a", "我", "C++", "123 个", "see https://x.org"])
def test_something_to_translate(text: str) -> None:
    assert not has_only_literals(text)
