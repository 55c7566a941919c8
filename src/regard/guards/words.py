"""Words as the checks count them: a Han character, or a run of other letters and digits."""

from __future__ import annotations

from regard.text.cached import cached_by_text
from regard.text.patterns import lazy_pattern
from regard.text.scripts import HAN_CHARACTERS

LETTER = rf"(?:(?![{HAN_CHARACTERS}])[^\W_])"  # a letter or digit, but not Han
WORD = lazy_pattern(rf"[{HAN_CHARACTERS}]|{LETTER}+(?:['’]{LETTER}+)*")
_HAN = lazy_pattern(f"[{HAN_CHARACTERS}]")


@cached_by_text
def count_words(text: str) -> float:
    """The number of words; a Han character counts as 0.6 of a word."""
    return len(WORD.findall(text)) - 0.4 * len(_HAN.findall(text))
