"""What the guards must know about a language: its names, dates and foreign words.

One subclass per language (`chinese.py`, `english.py`); `language_pair.py` says which pair uses which.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from regard.guards.negations import Negations
from regard.guards.quantities import Quantity
from regard.text.patterns import lazy_pattern
from regard.text.scripts import LATIN_CHARACTERS
from regard.text.spans import Span

_LATIN_WORD = lazy_pattern(f"[{LATIN_CHARACTERS}]+")


@dataclass(frozen=True)
class Date:
    text: str  # as written in the source
    year: str  # "" if the date has none
    month: int
    day: str  # "" if the date has none


@dataclass
class TextContext:
    """Facts about a whole text that decide what a word in it is; computed on first use."""

    text: str

    @cached_property
    def all_capitals(self) -> bool:
        return self.text.isupper() and " " in self.text.strip()

    @cached_property
    def latin_words(self) -> int:
        return len(_LATIN_WORD.findall(self.text))


class LanguageRules(ABC):
    """The rules of one language: as the source of a translation, as its target, or both."""

    date_pattern: re.Pattern[str]  # groups that are named, or end in, year, month and day
    month_pattern: re.Pattern[str]
    any_month: re.Pattern[str]  # finds something in every text in which `month_pattern` does, and is faster
    max_copied_share: float  # source: a translation with a greater share of copied words is a copy

    # -- source

    @abstractmethod
    def is_name(self, span: Span, context: TextContext) -> bool:
        """Whether a Latin word is a name to be copied into the translation."""

    def trim_name(self, name: str) -> str:
        """The name without a grammatical ending."""
        return name

    @abstractmethod
    def is_foreign(self, word: str, context: TextContext) -> bool:
        """Whether a word that is not in Latin script belongs to another language than the text."""

    @abstractmethod
    def translatable_words(self, text: str) -> list[str]:
        """The words, in lower case, that a translation should not contain."""

    # -- target

    @abstractmethod
    def missing_dates(self, dates: Sequence[Date], translation: str) -> list[Date]:
        """The dates of the source that the translation does not contain."""

    @abstractmethod
    def has_unknown_word(self, source: str, translation: str) -> bool:
        """Whether the translation has a word that cannot be a translation and is not in the source."""

    # -- both

    @abstractmethod
    def may_have_quantities(self, text: str) -> bool:
        """A quick look: False only if none of the quantities is certain."""

    @abstractmethod
    def find_quantities(self, text: str) -> tuple[Quantity, ...]:
        """The numbers with their units, in order."""

    @abstractmethod
    def may_have_negations(self, text: str) -> bool:
        """A quick look: False only if none of the negations is certain."""

    @abstractmethod
    def find_negations(self, text: str) -> Negations: ...

    @abstractmethod
    def read_month(self, month: str) -> int:
        """The number of a month found by `month_pattern`, from 1 to 12."""

    @abstractmethod
    def write_month(self, month: int) -> str:
        """What `month_pattern` finds, for a month from 1 to 12."""

    @abstractmethod
    def write_date(self, date: Date) -> str: ...
