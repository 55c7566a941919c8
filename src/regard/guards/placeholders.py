"""Placeholders: words that a model translates reliably, in place of entities that it must not change.

A small model cannot copy a URL letter by letter, but it knows that 波士顿 is Boston. So the URL is replaced by 波士顿
in the source, and Boston by the URL in the translation, provided that it occurs as often as expected.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from regard.guards.dates import translate_date
from regard.guards.language_pair import LanguagePair
from regard.guards.measures import translate_measure
from regard.text.patterns import lazy_pattern
from regard.text.sentences import is_unspaced
from regard.text.spans import Span, SpanKind

_LATIN = lazy_pattern("[A-Za-z0-9À-ɏ]")
_NUMBERS, _YEARS = ("20", "30", "50", "10", "100"), ("1995", "2003", "1980")


@dataclass(frozen=True)
class Placeholder:
    source: str  # in the text that the model translates
    target: str  # its expected translation
    original: str  # the entity
    replacement: str  # for `target`: the entity, or a translated date or measure


def insert_placeholders(text: str, spans: Sequence[Span], pair: LanguagePair) -> tuple[str, list[Placeholder]] | None:
    """Replace each span by a placeholder; None if there are more entities than placeholders."""
    if not spans:
        return text, []
    chosen: dict[str, Placeholder] = {}  # one per entity, however often it occurs
    for span in spans:
        entity = span.of(text)
        if entity not in chosen:
            used = [placeholder.source for placeholder in chosen.values()]
            words = placeholder_words(span, entity, pair)
            free = ((src, tgt) for src, tgt in words if src not in used and src not in text and tgt not in text)
            word_pair = next(free, None)
            if word_pair is None:
                return None
            replacement = translate_entity(entity, span.kind, pair)
            chosen[entity] = Placeholder(*word_pair, entity, replacement)
    masked, at = "", 0
    for span in spans:
        masked = _join(_join(masked, text[at : span.start]), chosen[span.of(text)].source)
        at = span.stop
    return _join(masked, text[at:]), list(chosen.values())


def translate_entity(entity: str, kind: SpanKind, pair: LanguagePair) -> str:
    """A date or a measure in the target language; other entities are the same in every language."""
    match kind:
        case "date":
            return translate_date(entity, pair)
        case "measure":
            return translate_measure(pair.find_quantities(entity, "source")[0], is_unspaced(pair.tgt_lang))
        case _:
            return entity


def _join(text: str, more: str) -> str:
    """Concatenate, with a space if two Latin words would merge."""
    merge = _LATIN.match(text[-1:]) and _LATIN.match(more[:1])
    return f"{text} {more}" if merge else text + more


def placeholder_words(span: Span, entity: str, pair: LanguagePair) -> Iterable[tuple[str, str]]:
    """(source, target) words that may replace an entity, the most reliable first."""
    if (span.kind == "notation" and not entity[-1].isalpha()) or (span.kind == "number" and "°" not in entity):
        return ((number, number) for number in (_YEARS if entity.isdigit() and len(entity) == 4 else _NUMBERS))
    return pair.date_placeholders if span.kind == "date" else pair.name_placeholders


def restore_source(text: str, placeholders: Sequence[Placeholder]) -> str:
    """The source with the entities in place of the placeholders."""
    for placeholder in placeholders:
        text = _whole_word(placeholder.source).sub(lambda _, entity=placeholder.original: entity, text)  # type: ignore[misc]
    return text


def restore_translation(source: str, translation: str, placeholders: Sequence[Placeholder]) -> str | None:
    """The translation with the entities; None if a placeholder occurs more or less often than in the source."""
    for placeholder in placeholders:
        expected = len(_whole_word(placeholder.source).findall(source))
        translation, count = _whole_word(placeholder.target).subn(
            lambda _, entity=placeholder.replacement: entity,  # type: ignore[misc]
            translation,
        )
        if count != expected:
            return None
    return translation


def _whole_word(word: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![A-Za-z0-9]){re.escape(word)}(?![A-Za-z0-9])" if word.isascii() else re.escape(word))
