"""The language pair of a translation, with the rules that the guards apply to it.

There are rules for Chinese–English in both directions. To add a pair, write the `LanguageRules` of its languages and
add a case to `find_language_pair`.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Literal

from regard.guards.chinese import CHINESE
from regard.guards.english import ENGLISH
from regard.guards.language_rules import LanguageRules
from regard.guards.notation import find_digits
from regard.guards.quantities import Quantity
from regard.text.language import base_language

# (Chinese, English). Places come first: a place can take the position of most nouns, and no pronoun replaces it.
_NAMES = (
    ("波士顿", "Boston"),
    ("澳大利亚", "Australia"),
    ("北京", "Beijing"),
    ("东京", "Tokyo"),
    ("汤姆", "Tom"),
    ("玛丽", "Mary"),
)
_DAYS = (("星期一", "Monday"), ("星期五", "Friday"), ("星期三", "Wednesday"))
_SAME_IN_ALL_LANGUAGES = (("Python", "Python"), ("Linux", "Linux"), ("HTML", "HTML"))


@dataclass(frozen=True, eq=False)
class LanguagePair:
    src_lang: str  # language tags
    tgt_lang: str
    source: LanguageRules
    target: LanguageRules
    # (source, target) words that models translate reliably, the most reliable first (`placeholders.py`)
    name_placeholders: tuple[tuple[str, str], ...] = _SAME_IN_ALL_LANGUAGES
    date_placeholders: tuple[tuple[str, str], ...] = ()

    @property
    def converts_dates(self) -> bool:
        """Whether dates are translated by rule."""
        return self.knows_words

    @property
    def knows_words(self) -> bool:
        """Whether the rules are those of both languages; otherwise only digits can be compared."""
        return bool(self.date_placeholders)

    def may_have_quantities(self, text: str, side: Literal["source", "target"]) -> bool:
        """A quick look: False only if none of the quantities is certain."""
        return not self.knows_words or (self.source if side == "source" else self.target).may_have_quantities(text)

    def find_quantities(self, text: str, side: Literal["source", "target"]) -> tuple[Quantity, ...]:
        """The quantities of a text in the source or the target language."""
        if not self.knows_words:
            return find_digits(text)
        return (self.source if side == "source" else self.target).find_quantities(text)


@functools.lru_cache(maxsize=256)
def find_language_pair(src_lang: str, tgt_lang: str) -> LanguagePair:
    """The pair of two language tags, such as zh-Hans and en.

    A pair without rules of its own gets those of the Chinese–English direction that is nearest to it, without the
    translation of dates: most of them look for Han characters or English words and find nothing in other languages.
    """
    match base_language(src_lang), base_language(tgt_lang):
        case "zh", "en":
            return LanguagePair(src_lang, tgt_lang, CHINESE, ENGLISH, (*_NAMES, *_SAME_IN_ALL_LANGUAGES), _DAYS)
        case "en", "zh":
            names = (*_swap(_NAMES), *_SAME_IN_ALL_LANGUAGES)
            return LanguagePair(src_lang, tgt_lang, ENGLISH, CHINESE, names, _swap(_DAYS))
        case "zh", _:
            return LanguagePair(src_lang, tgt_lang, CHINESE, ENGLISH)
        case _:
            return LanguagePair(src_lang, tgt_lang, ENGLISH, CHINESE)


def _swap(pairs: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    return tuple((target, source) for source, target in pairs)
