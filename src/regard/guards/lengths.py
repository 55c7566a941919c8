"""Translations that are too long for their source."""

from __future__ import annotations

from regard.guards.clauses import ends_sentence
from regard.guards.words import count_words


def is_sentence_for_word(source: str, translation: str) -> bool:
    """Whether one or two words became a whole sentence."""
    short = count_words(source) <= 2 and not ends_sentence(source)
    return short and count_words(translation) > 3 and ends_sentence(translation)


def is_too_long(source: str, translation: str) -> bool:
    return count_words(translation) > 3 * count_words(source) + 6
