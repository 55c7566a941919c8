"""All checks and all repairs of a translation.

Severe problems make a translation unusable: it is empty, loops, copies the source, or lacks an entity. With one of the
other problems (a changed negation, a number that no rule can write, a hallucinated name, a sentence for a word, far
too many words) it is used if no better one is found.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from regard.guards.changes import changed_negation, changed_quantities, changed_ranges
from regard.guards.copies import is_copy
from regard.guards.dates import repair_months
from regard.guards.language_pair import LanguagePair
from regard.guards.lengths import is_sentence_for_word, is_too_long
from regard.guards.loops import has_loop
from regard.guards.missing import missing_entities, repair_numbers
from regard.guards.names import has_hallucinated_name, repair_name_case
from regard.guards.quotes import repair_quotes

Problem = Literal[
    "empty",
    "loop",
    "copy",
    "missing entity",
    "changed number",
    "changed negation",
    "hallucinated name",
    "sentence for a word",
    "too long",
]
SEVERE: tuple[Problem, ...] = ("empty", "loop", "copy", "missing entity")


def find_problems(source: str, translation: str, pair: LanguagePair) -> list[Problem]:
    """The problems of a translation, severe ones first."""
    if not translation.strip():
        return ["empty"] if source.strip() else []
    found: list[Problem] = []
    if has_letter_or_digit(source) and not has_letter_or_digit(translation):
        found.append("empty")
    if has_loop(source, translation):
        found.append("loop")
    if is_copy(source, translation, pair.source):
        found.append("copy")
    if missing_entities(source, translation, pair):
        found.append("missing entity")
    elif any(changed_quantities(source, translation, pair)) or changed_ranges(source, translation, pair):
        found.append("changed number")
    if changed_negation(source, translation, pair):
        found.append("changed negation")
    if has_hallucinated_name(source, translation, pair):
        found.append("hallucinated name")
    if is_sentence_for_word(source, translation):
        found.append("sentence for a word")
    if is_too_long(source, translation):
        found.append("too long")
    return found


def is_severe(problems: Sequence[Problem]) -> bool:
    return any(problem in SEVERE for problem in problems)


def has_letter_or_digit(text: str) -> bool:
    return any(character.isalnum() for character in text)


def repair(source: str, translation: str, pair: LanguagePair) -> str:
    """Correct months, numbers, quotation marks and the case of names."""
    translation = repair_months(source, translation, pair)
    translation = repair_numbers(source, translation, pair)
    translation = repair_quotes(source, translation)
    return repair_name_case(source, translation, pair)
