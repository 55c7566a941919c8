"""Translations that copy words of the source."""

from __future__ import annotations

from regard.guards.chinese import CHINESE
from regard.guards.copies import is_copy, remove_copied_words
from regard.guards.english import ENGLISH


def test_a_copied_name_is_not_a_copy() -> None:
    assert not is_copy("JavaScript", "JavaScript", ENGLISH)


def test_copied_words_are_removed() -> None:
    assert remove_copied_words("我爱Python", "I 爱 Python 我", CHINESE) == "I Python"
    assert remove_copied_words("I love Tom", "i 爱 love Tom", ENGLISH) == "爱 Tom"
