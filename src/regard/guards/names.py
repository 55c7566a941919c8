"""Names: hallucinated ones, and the case of those that were copied."""

from __future__ import annotations

import re

from regard.guards.entities import find_entities
from regard.guards.language_pair import LanguagePair
from regard.guards.missing import is_written, occurrence
from regard.guards.words import LETTER
from regard.text.patterns import lazy_pattern

# Names that are frequent in corpora of example sentences, as whole words: not in "tomorrow", "bottom" or "summary".
_FREQUENT_NAMES = (
    (("tom", "汤姆", "湯姆"), lazy_pattern(rf"(?<!{LETTER})toms?(?!{LETTER})|汤姆|湯姆", re.IGNORECASE)),
    (
        ("mary", "玛丽", "玛莉", "瑪麗", "瑪莉"),
        lazy_pattern(rf"(?<!{LETTER})marys?(?!{LETTER})|玛丽|玛莉|瑪麗|瑪莉", re.IGNORECASE),
    ),
)


def has_hallucinated_name(source: str, translation: str, pair: LanguagePair) -> bool:
    """Whether the translation has a name that is not in the source."""
    lower = translation.lower()
    for words, name in _FREQUENT_NAMES:
        if any(word in lower for word in words) and name.search(translation) and not name.search(source):
            return True
    return pair.target.has_unknown_word(source, translation)


def repair_name_case(source: str, translation: str, pair: LanguagePair) -> str:
    """Write copied names as the source does: iphone → iPhone."""
    for span in find_entities(source, pair.source):
        name = span.of(source)
        # If the name is there as it should be, other occurrences may be words: "it" beside "IT".
        if span.kind != "name" or is_written(name, translation):
            continue
        if name not in occurrence(name).findall(translation):
            translation = occurrence(name).sub(lambda _, name=name: name, translation)  # type: ignore[misc]
    return translation
