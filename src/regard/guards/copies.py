"""Copies: translations that consist of words of the source."""

from __future__ import annotations

from collections import Counter

from regard.guards.language_rules import LanguageRules
from regard.guards.words import WORD


def is_copy(source: str, translation: str, source_language: LanguageRules) -> bool:
    """Whether too many words of the translation are words of the source that should have been translated."""
    shared = set(source.lower()).intersection(translation.lower())
    if not any(one.isalpha() or (one.isalnum() and not one.isdigit()) for one in shared):
        return False  # no character of any word, much less a word
    written = [word.lower() for word in WORD.findall(translation) if not word.isdigit()]
    if set(written).isdisjoint(word.lower() for word in WORD.findall(source)):
        return False
    translatable = Counter(source_language.translatable_words(source))
    copied = (Counter(written) & translatable).total()
    return copied > source_language.max_copied_share * len(written)


def remove_copied_words(source: str, translation: str, source_language: LanguageRules) -> str:
    translatable = set(source_language.translatable_words(source))
    rest = WORD.sub(lambda match: "" if match[0].lower() in translatable else match[0], translation)
    return " ".join(rest.split())
