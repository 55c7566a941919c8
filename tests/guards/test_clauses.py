"""Clauses in the middle of a sentence."""

from __future__ import annotations

from regard.guards.clauses import lower_first_word


def test_a_clause_begins_in_lower_case() -> None:
    assert lower_first_word("The dog") == "the dog"
    assert [lower_first_word(text) for text in ("I am", "Theo is", "Tom is", "", "你好")] == [
        *("I am", "Theo is", "Tom is", "", "你好")
    ]
