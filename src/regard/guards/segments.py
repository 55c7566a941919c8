"""A text cut into stretches, some of which stay as they are, and put together again."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from regard.text.entities import Span
from regard.text.sentences import is_unspaced, space_between

_WIDE = re.compile(
    "[\u2014\u2018-\u201d\u2026\u3000-\u30ff\u3400-\u9fff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]"
)
_EMOJI = "\u2600"  # or after it; but for what is wide
_CLINGS = frozenset(",.;:!?)]}%，。；：！？）、”’")  # no space comes before these
_AFTER_THESE = frozenset(",.;:!?)]}%")
_CHINESE_MARKS, _LATIN_MARKS = "，。！？；：（）、“”", ',.!?;:(),""'
_TO_LATIN = str.maketrans(_CHINESE_MARKS, _LATIN_MARKS)
_TO_CHINESE = str.maketrans(",.!?;:()", "，。！？；：（）")


@dataclass(frozen=True)
class Stretch:
    text: str  # without white space around it
    kept: bool = False
    spaced: bool = False  # whether there is white space before it


def cut_around(text: str, spans: Sequence[Span]) -> list[Stretch]:
    """The spans, which stay as they are, and what is between them."""
    found: list[Stretch] = []
    at = 0
    for start, stop in [*((span.start, span.stop) for span in spans), (len(text), len(text))]:
        for raw, kept in ((text[at:start], False), (text[start:stop], True)):
            if raw.strip():
                spaced = raw[0].isspace() or text[: at if not kept else start][-1:].isspace()
                found.append(Stretch(raw.strip(), kept, bool(found) and spaced))
        at = stop
    return found


def weave(stretches: Sequence[Stretch], lang: str) -> str:
    """One text of translated and kept stretches, with spaces as the language has them."""
    text = ""
    for stretch in stretches:
        text = join(text, stretch, lang)
    return text


def translate_marks(text: str, lang: str) -> str:
    """Punctuation alone, as the language has it."""
    if is_unspaced(lang):
        return text if any(character.isalnum() for character in text) else text.translate(_TO_CHINESE)
    return text.translate(_TO_LATIN)


def join(text: str, stretch: Stretch, lang: str) -> str:
    if not text or not stretch.text:
        return text or stretch.text
    last, first = text[-1], stretch.text[0]
    if first in _CLINGS:
        between = ""
    elif stretch.spaced:
        between = "" if _WIDE.match(last) and _WIDE.match(first) else " "
    elif is_unspaced(lang):
        between = space_between(last, first)
    else:
        word = first.isalnum() or first in "`/<{#@"
        after_word = last.isalnum() or last in _AFTER_THESE or last in "`>" or last >= _EMOJI
        between = " " if (word and after_word) or (first >= _EMOJI and last.isalnum()) else ""
    return text + between + stretch.text
