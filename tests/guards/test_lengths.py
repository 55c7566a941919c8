"""Translations that are too long."""

from __future__ import annotations

from regard.guards.lengths import is_sentence_for_word, is_too_long


def test_a_sentence_for_a_word() -> None:
    assert is_sentence_for_word("图书馆", "He went to the library.")
    assert not is_sentence_for_word("图书馆。", "He went to the library.")
    assert not is_sentence_for_word("图书馆", "the public library")
    assert not is_sentence_for_word("他去了图书馆", "He went to the library.")


def test_too_many_words() -> None:
    assert is_too_long("好", "good " * 8)
    assert not is_too_long("好", "good " * 7)
