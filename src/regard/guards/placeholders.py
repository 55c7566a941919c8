"""Words that a model translates reliably, put in the place of something that it must not touch.

An address or a piece of code is nothing that a small model could copy letter by letter, but every model of everyday
sentences knows what becomes of 波士顿. So the address is 波士顿 while the sentence is translated, and takes the place
of Boston in the translation, if there is exactly one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from regard.guards.dates import other_way
from regard.text.entities import Span
from regard.text.language import base_language

# Chinese, English. Places come first: as names of persons do, they stand wherever a noun does, and nobody is "he".
_NAMES = (
    ("波士顿", "Boston"),
    ("澳大利亚", "Australia"),
    ("北京", "Beijing"),
    ("东京", "Tokyo"),
    ("汤姆", "Tom"),
    ("玛丽", "Mary"),
)
_ANYWHERE = ("Python", "Linux", "HTML")  # the same in every language
_LATIN = re.compile("[A-Za-z0-9À-ɏ]")
_DAYS = (("星期一", "Monday"), ("星期五", "Friday"), ("星期三", "Wednesday"))
_NUMBERS, _YEARS = ("20", "30", "50", "10", "100"), ("1995", "2003", "1980")


@dataclass(frozen=True)
class StandIn:
    """`source` is what the model reads, `target` what it should make of it, `meant` what they stand for."""

    source: str
    target: str
    meant: str
    written: str = ""  # what is put in the place of `target`, where that is not what is meant, as of a date


def stand_in(text: str, spans: Sequence[Span], src_lang: str, tgt_lang: str) -> tuple[str, list[StandIn]] | None:
    """The text with a stand-in for each span; None where there are more spans than words for them."""
    chosen: dict[str, StandIn] = {}  # one for each thing that is meant, wherever it comes
    for span in spans:
        meant = span.of(text)
        if meant not in chosen:
            taken = [one.source for one in chosen.values()]
            pairs = candidates(span, meant, src_lang, tgt_lang)
            free = (pair for pair in pairs if pair[0] not in taken and not any(word in text for word in pair))
            pair = next(free, None)
            if pair is None:
                return None
            written = other_way(meant, base_language(src_lang) == "zh") if span.kind == "date" else ""
            chosen[meant] = StandIn(*pair, meant, written)
    masked, at = "", 0
    for span in spans:
        masked = _apart(_apart(masked, text[at : span.start]), chosen[span.of(text)].source)
        at = span.stop
    return _apart(masked, text[at:]), list(chosen.values())


def _apart(text: str, more: str) -> str:
    """One after the other, with a space where they would be one word."""
    glued = _LATIN.match(text[-1:]) and _LATIN.match(more[:1])
    return f"{text} {more}" if glued else text + more


def candidates(span: Span, meant: str, src_lang: str, tgt_lang: str) -> Iterable[tuple[str, str]]:
    """What may stand in for a span: (source, target), the likeliest to come through first."""
    if span.kind == "number" and "°" not in meant:
        return ((number, number) for number in (_YEARS if meant.isdigit() and len(meant) == 4 else _NUMBERS))
    known = _DAYS if span.kind == "date" else (*_NAMES, *((word, word) for word in _ANYWHERE))
    match base_language(src_lang), base_language(tgt_lang):
        case "zh", "en":
            return known
        case "en", "zh":
            return ((english, chinese) for chinese, english in known)
        case _:
            return ((word, word) for word in _ANYWHERE)


def put_in(text: str, stand_ins: Sequence[StandIn]) -> str:
    """The text with what is meant in the place of the words that stand in for it."""
    for one in stand_ins:
        text = _whole(one.source).sub(lambda _, one=one: one.meant, text)  # type: ignore[misc]
    return text


def put_back(source: str, translation: str, stand_ins: Sequence[StandIn]) -> str | None:
    """The translation with what is meant; None where a stand-in did not come through as often as it was put in."""
    for one in stand_ins:
        wanted = len(_whole(one.source).findall(source))
        translation, count = _whole(one.target).subn(lambda _, one=one: one.written or one.meant, translation)  # type: ignore[misc]
        if count != wanted:
            return None
    return translation


def _whole(word: str) -> re.Pattern[str]:
    """The word, and not a part of another."""
    return re.compile(rf"(?<![A-Za-z0-9]){re.escape(word)}(?![A-Za-z0-9])" if word.isascii() else re.escape(word))
