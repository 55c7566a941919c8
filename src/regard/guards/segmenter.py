"""Segmentation of a text before translation: what is copied, and which parts the model translates.

Symbols split the text; other protected entities (`entities.py`) are replaced by placeholders (`placeholders.py`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from regard.guards.entities import find_entities, protected
from regard.guards.language_pair import LanguagePair
from regard.guards.placeholders import Placeholder, insert_placeholders, restore_source
from regard.guards.segments import Segment, split_at_spans, translate_punctuation
from regard.guards.wrapping import translate_wrapping, unwrap
from regard.text.literals import find_literals, has_only_literals
from regard.text.sentences import split_sentences


@dataclass(frozen=True)
class Part:
    """One input of the model."""

    source: str  # with placeholders
    placeholders: tuple[Placeholder, ...] = ()
    prefix_ids: tuple[int, ...] = ()  # tokens with which the translation must begin

    @property
    def original(self) -> str:
        """The source without placeholders."""
        return restore_source(self.source, self.placeholders)


@dataclass(frozen=True)
class PendingSegment:
    """A segment to translate."""

    parts: list[Part]
    space_before: bool


@dataclass(frozen=True)
class Segmenter:
    """Splits texts of one language pair into segments."""

    pair: LanguagePair
    split: Callable[[str], list[str]]  # a sentence into inputs that the model can take
    preprocess: Callable[[str], str]  # applied to every input of the model

    def segment(self, text: str) -> list[Segment | PendingSegment]:
        """The segments of a text, in order."""
        if has_only_literals(text):
            return [Segment(text, verbatim=True)] if text else []
        before, text, after = unwrap(text)
        if before:
            opening, closing = translate_wrapping(before, after, self.pair.tgt_lang)
            inner = self.segment(text)
            inner[0] = dataclasses.replace(inner[0], space_before=opening != opening.rstrip())
            end = [Segment(closing, verbatim=True)] if closing else []
            return [Segment(opening.rstrip(), verbatim=True), *inner, *end]
        symbols = [span for span in find_literals(text) if span.kind == "symbol"]
        segments: list[Segment | PendingSegment] = []
        for segment in split_at_spans(text, symbols):
            if segment.verbatim or has_only_literals(segment.text):
                segments.append(dataclasses.replace(segment, text=self.target_text(segment)))
            else:
                segments += self.segment_words(segment)
        return segments

    def segment_words(self, segment: Segment) -> Iterator[Segment | PendingSegment]:
        """A segment without symbols: one pending segment with placeholders, if there are enough of them.

        Otherwise, or if the limit of the model would cut through a placeholder, the segment is split at its entities.
        """
        spans = protected(find_entities(segment.text, self.pair.source))
        masked = insert_placeholders(segment.text, spans, self.pair)
        if masked is not None:
            text, placeholders = masked
            parts = self.to_parts(text, placeholders)
            words = [placeholder.source for placeholder in placeholders]
            if all(sum(part.source.count(word) for part in parts) == text.count(word) for word in words):
                yield PendingSegment(parts, segment.space_before)
                return
        for at, piece in enumerate(split_at_spans(segment.text, spans)):
            space_before = piece.space_before if at else segment.space_before
            if piece.verbatim or has_only_literals(piece.text):
                yield dataclasses.replace(piece, text=self.target_text(piece), space_before=space_before)
            else:
                yield PendingSegment(self.to_parts(piece.text, ()), space_before)

    def to_parts(self, text: str, placeholders: Sequence[Placeholder]) -> list[Part]:
        # Sentence by sentence, as models are trained: a small model omits some of several sentences.
        sentences = split_translatable_sentences(self.preprocess(text))
        texts = [part for sentence in sentences for part in self.split(sentence)]
        return [Part(one, tuple(each for each in placeholders if each.source in one)) for one in texts]

    def target_text(self, segment: Segment) -> str:
        """The text of a segment without words: an entity, or punctuation in the marks of the target language."""
        return segment.text if segment.verbatim else translate_punctuation(segment.text, self.pair.tgt_lang)


def parts_of(segments: Sequence[Segment | PendingSegment]) -> list[Part]:
    return [part for segment in segments if isinstance(segment, PendingSegment) for part in segment.parts]


def split_translatable_sentences(text: str) -> list[str]:
    """The sentences; one without words, such as "……", stays with its neighbour."""
    found: list[str] = []
    at = begun = 0
    for one in split_sentences(text):
        start = text.index(one, at)
        at = start + len(one)
        if found and (has_only_literals(one) or has_only_literals(found[-1])):
            found[-1] = " ".join(text[begun:at].split())
        else:
            found.append(one)
            begun = start
    return found
