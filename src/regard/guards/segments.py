"""Segments of a text, which are translated or copied, and joined again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from regard.text.patterns import lazy_pattern
from regard.text.sentences import is_unspaced, space_between
from regard.text.spans import Span

_WIDE = lazy_pattern(
    "[\u2014\u2018-\u201d\u2026\u3000-\u30ff\u3400-\u9fff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]"
)
_EMOJI = "\u2600"  # the first; later characters are emoji or wide
_NO_SPACE_BEFORE = frozenset(",.;:!?)]}%，。；：！？）、”’")
_SPACE_AFTER = frozenset(",.;:!?)]}%")
_CHINESE_MARKS, _LATIN_MARKS = "，。！？；：（）、“”", ',.!?;:(),""'
_TO_LATIN = str.maketrans(_CHINESE_MARKS, _LATIN_MARKS)
_TO_CHINESE = str.maketrans(",.!?;:()", "，。！？；：（）")


@dataclass(frozen=True)
class Segment:
    text: str  # without white space around it
    verbatim: bool = False  # copied, not translated
    space_before: bool = False


def split_at_spans(text: str, spans: Sequence[Span]) -> list[Segment]:
    """The spans as verbatim segments, and the segments between them."""
    found: list[Segment] = []
    at = 0
    for start, stop in [*((span.start, span.stop) for span in spans), (len(text), len(text))]:
        for raw, verbatim in ((text[at:start], False), (text[start:stop], True)):
            if raw.strip():
                space_before = raw[0].isspace() or text[: at if not verbatim else start][-1:].isspace()
                found.append(Segment(raw.strip(), verbatim, bool(found) and space_before))
        at = stop
    return found


def join_segments(segments: Sequence[Segment], lang: str) -> str:
    """Join translated and verbatim segments, with the spacing of the language."""
    text = ""
    for segment in segments:
        text = append_segment(text, segment, lang)
    return text


def translate_punctuation(text: str, lang: str) -> str:
    """Convert a text that is only punctuation to the marks of the language."""
    if is_unspaced(lang):
        return text if any(character.isalnum() for character in text) else text.translate(_TO_CHINESE)
    return text.translate(_TO_LATIN)


def append_segment(text: str, segment: Segment, lang: str) -> str:
    if not text or not segment.text:
        return text or segment.text
    last, first = text[-1], segment.text[0]
    if first in _NO_SPACE_BEFORE:
        between = ""
    elif segment.space_before:
        between = "" if _WIDE.match(last) and _WIDE.match(first) else " "
    elif is_unspaced(lang):
        between = space_between(last, first)
    else:
        word = first.isalnum() or first in "`/<{#@"
        after_word = last.isalnum() or last in _SPACE_AFTER or last in "`>" or last >= _EMOJI
        between = " " if (word and after_word) or (first >= _EMOJI and last.isalnum()) else ""
    return text + between + segment.text
