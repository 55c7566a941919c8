"""A text before it is translated: what of it stays as it is, and what a model is asked for, part by part.

What must be kept exactly (`text.kept`) never reaches the model: symbols cut the text, and words that every model knows
stand in for addresses and code (`text.stand_ins`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from regard.guards.placeholders import StandIn, put_in, stand_in
from regard.guards.segments import Stretch, cut_around, translate_marks
from regard.guards.wrapping import marks_of, unwrap
from regard.text.entities import find_kept, fixed, is_all_kept
from regard.text.language import base_language
from regard.text.sentences import split_sentences


@dataclass(frozen=True)
class Part:
    """What a model is asked to translate at once."""

    source: str  # with stand-ins
    stand_ins: tuple[StandIn, ...] = ()
    forced: tuple[int, ...] = ()  # how the translation must begin

    @property
    def meant(self) -> str:
        return put_in(self.source, self.stand_ins)


@dataclass(frozen=True)
class Words:
    """A stretch to translate."""

    parts: list[Part]
    spaced: bool  # whether there is white space before it


@dataclass(frozen=True)
class Layout:
    """How texts of one language are laid out for another."""

    src_lang: str
    tgt_lang: str
    cut: Callable[[str], list[str]]  # a sentence into what a model can read at once
    read: Callable[[str], str]  # what is done to all that the model gets to see

    @property
    def chinese(self) -> bool:
        return base_language(self.src_lang) == "zh"

    def lay_out(self, text: str) -> list[Stretch | Words]:
        """The text as stretches that stay as they are and such to translate, in order."""
        if is_all_kept(text):
            return [Stretch(text, kept=True)] if text else []
        before, text, after = unwrap(text)
        if before:
            opening, closing = marks_of(before, after, self.tgt_lang)
            inner = self.lay_out(text)
            inner[0] = dataclasses.replace(inner[0], spaced=opening != opening.rstrip())
            return [Stretch(opening.rstrip(), kept=True), *inner, *([Stretch(closing, kept=True)] if closing else [])]
        spans = fixed(find_kept(text, self.chinese))
        plan: list[Stretch | Words] = []
        for stretch in cut_around(text, [span for span in spans if span.kind == "symbol"]):
            if stretch.kept or is_all_kept(stretch.text):
                plan.append(dataclasses.replace(stretch, text=self.with_marks(stretch)))
            else:
                plan += self.lay_out_words(stretch)
        return plan

    def lay_out_words(self, stretch: Stretch) -> Iterator[Stretch | Words]:
        """A stretch without symbols: with stand-ins, or cut again where too many are needed, or one would be torn."""
        spans = fixed(find_kept(stretch.text, self.chinese))
        masked = stand_in(stretch.text, spans, self.src_lang, self.tgt_lang)
        if masked is not None:
            text, stand_ins = masked
            parts = self.as_parts(text, stand_ins)
            if all(sum(part.source.count(one.source) for part in parts) == text.count(one.source) for one in stand_ins):
                yield Words(parts, stretch.spaced)
                return
        for at, piece in enumerate(cut_around(stretch.text, spans)):
            spaced = piece.spaced if at else stretch.spaced
            if piece.kept or is_all_kept(piece.text):
                yield dataclasses.replace(piece, text=self.with_marks(piece), spaced=spaced)
            else:
                yield Words(self.as_parts(piece.text, ()), spaced)

    def as_parts(self, text: str, stand_ins: Sequence[StandIn]) -> list[Part]:
        # Sentence by sentence, as models are trained: of several at once a small one forgets all but some.
        texts = [part for one in sentences_with_words(self.read(text)) for part in self.cut(one)]
        return [Part(one, tuple(s for s in stand_ins if s.source in one)) for one in texts]

    def with_marks(self, piece: Stretch) -> str:
        """Marks between things that are kept are those of the other language."""
        return piece.text if piece.kept else translate_marks(piece.text, self.tgt_lang)


def parts_of(plan: Sequence[Stretch | Words]) -> list[Part]:
    return [part for one in plan if isinstance(one, Words) for part in one.parts]


def sentences_with_words(text: str) -> list[str]:
    """The sentences; those without anything to translate, such as "……", together with others, as they stood."""
    found: list[str] = []
    at = begun = 0
    for one in split_sentences(text):
        start = text.index(one, at)
        at = start + len(one)
        if found and (is_all_kept(one) or is_all_kept(found[-1])):
            found[-1] = " ".join(text[begun:at].split())
        else:
            found.append(one)
            begun = start
    return found
