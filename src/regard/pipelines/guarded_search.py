"""The search for translations that pass the checks: steps 1 to 3 of `guarded_translator.py`."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from regard.config import DecodeConfig
from regard.guards.changes import find_changes, write_note
from regard.guards.checks import Problem, find_problems, is_severe, repair
from regard.guards.dates import find_dates
from regard.guards.entities import find_entities, protected
from regard.guards.language_pair import LanguagePair
from regard.guards.measures import find_measures
from regard.guards.numbers import numbers_to_digits
from regard.guards.placeholders import insert_placeholders, restore_translation
from regard.guards.quotes import repair_quotes
from regard.guards.segmenter import Part, PendingSegment, Segmenter
from regard.guards.segments import Segment, join_segments
from regard.pipelines.translation import Alternative, Translation, join_alternatives, untranslated
from regard.text.normalise import normalise
from regard.text.spans import Span, map_between_spans

MIN_RETRY_BEAM = 4
Masked = Literal["dates", "numbers", "measures"]  # what placeholders stand for
MASKS: tuple[Masked, ...] = ("dates", "numbers", "measures")


class UnguardedTranslator(Protocol):
    """What the guards need of a translator; `ModelTranslator` has it."""

    src_lang: str
    tgt_lang: str

    def decode_config(self, options: dict[str, Any]) -> DecodeConfig: ...
    def split(self, text: str) -> list[str]: ...
    def encode_prefix(self, prefix: str, parts: list[list[str]]) -> list[list[int]] | None: ...
    def search(
        self,
        parts: Sequence[str],
        config: DecodeConfig,
        n_best: int = 1,
        prefixes: Sequence[Sequence[int]] | None = None,
        done: Callable[[Sequence[int]], None] = lambda indices: None,
    ) -> list[list[Alternative]]: ...


@dataclass(frozen=True)
class Answer:
    """The translations of one part."""

    alternatives: tuple[Alternative, ...]
    note: str = ""


# Answers for parts for which no search found an acceptable translation.
Fallback = Callable[[Sequence[Part], DecodeConfig], list[Answer]]


@dataclass
class Attempts:
    """What the searches have found so far, by the index of the part."""

    answers: dict[int, Answer] = dataclasses.field(default_factory=dict)
    acceptable: dict[int, Answer] = dataclasses.field(default_factory=dict)  # with problems, but none severe

    def accept(self, indices: Sequence[int]) -> None:
        """Use acceptable translations as answers."""
        for at in indices:
            if at in self.acceptable and at not in self.answers:
                self.answers[at] = self.acceptable[at]


class GuardedSearch:
    def __init__(self, translator: UnguardedTranslator, segmenter: Segmenter) -> None:
        self.translator, self.segmenter, self.pair = translator, segmenter, segmenter.pair

    def search(
        self,
        parts: Sequence[Part],
        config: DecodeConfig,
        n_best: int,
        fallback: Fallback,
        done: Callable[[Sequence[int]], None] = lambda indices: None,
    ) -> list[Answer]:
        """An answer for each part. With beam search, equal parts are translated once."""
        indices: dict[Part, list[int]] = {}
        for at, part in enumerate(parts):
            indices.setdefault(part, []).append(at)
        if config.method != "beam" or len(indices) == len(parts):
            return self.search_each(parts, config, n_best, fallback, done)
        distinct = list(indices)

        def done_all(some: Sequence[int]) -> None:
            done([index for at in some for index in indices[distinct[at]]])

        answers = dict(zip(distinct, self.search_each(distinct, config, n_best, fallback, done_all), strict=True))
        return [answers[part] for part in parts]

    def search_each(
        self,
        parts: Sequence[Part],
        config: DecodeConfig,
        n_best: int,
        fallback: Fallback,
        done: Callable[[Sequence[int]], None],
    ) -> list[Answer]:
        wide = dataclasses.replace(config, method="beam", beam=max(config.beam, n_best, MIN_RETRY_BEAM))
        no_repeats = dataclasses.replace(wide, no_repeat_ngram=min(config.no_repeat_ngram or 3, 3))
        attempts = Attempts()
        pending = dict(enumerate(parts))
        self.attempt(pending, config, n_best, n_best, attempts, done)
        pending = {at: part for at, part in pending.items() if at not in attempts.answers}
        for retry in (wide, no_repeats):
            self.attempt(pending, retry, wide.beam, n_best, attempts)
            attempts.accept(list(pending))
            pending = {at: part for at, part in pending.items() if at not in attempts.answers}
        for what in MASKS:
            masked = {at: self.mask(part, what) for at, part in pending.items() if at not in attempts.answers}
            some = {at: part for at, part in masked.items() if part}
            self.attempt(some, wide, wide.beam, n_best, attempts)
        attempts.accept(list(pending))
        rest = [at for at in pending if at not in attempts.answers]
        attempts.answers |= zip(rest, fallback([pending[at] for at in rest], no_repeats), strict=True)
        return [attempts.answers[at] for at in range(len(parts))]

    def attempt(
        self,
        parts: Mapping[int, Part],
        config: DecodeConfig,
        count: int,
        n_best: int,
        attempts: Attempts,
        done: Callable[[Sequence[int]], None] = lambda indices: None,
    ) -> None:
        """Search `count` translations of each part, and record those without severe problems."""
        if not parts:
            return
        prefixes = [part.prefix_ids for part in parts.values()]
        sources = [part.source for part in parts.values()]
        found = self.translator.search(sources, config, count, prefixes if any(prefixes) else None, done)
        for (at, part), alternatives in zip(parts.items(), found, strict=True):
            checked = [self.check(part, alternative) for alternative in alternatives]
            good = [alternative for alternative, problems in checked if not problems]
            fair = sorted((pair for pair in checked if not is_severe(pair[1])), key=lambda pair: len(pair[1]))
            if good:
                attempts.answers[at] = Answer(tuple(good[:n_best]))
            elif part.prefix_ids:  # no retry: the prefix was asked for, whatever the translation becomes
                attempts.answers[at] = Answer(tuple(alternative for alternative, _ in (fair or checked)[:n_best]))
            elif fair:
                attempts.acceptable.setdefault(at, Answer((fair[0][0],)))

    def check(self, part: Part, alternative: Alternative) -> tuple[Alternative, list[Problem]]:
        """The translation, repaired and with its entities restored; and its problems."""
        text = repair(part.source, alternative.text, self.pair)
        problems = find_problems(part.source, text, self.pair)
        restored = restore_translation(part.source, text, part.placeholders)
        if restored is None:
            return alternative, [*problems, "missing entity"]
        if restored == alternative.text and not part.placeholders:
            return alternative, problems
        return dataclasses.replace(alternative, text=restored, parts=((part.original, restored),)), problems

    def mask(self, part: Part, what: Masked) -> Part | None:
        """The part with placeholders; None if it has no such entity, or more than there are placeholders.

        Of the checked entities, only dates are replaced at first: few placeholders keep the sentence natural. Then all
        are, numbers without their units, and at last all with numbers and their units, which the rules translate.
        """
        text, spans = self.find_all_entities(part, with_measures=what == "measures")
        if what == "dates":
            dates = [span for span in spans if span.kind == "date"]
            spans = [span for span in spans if span in dates or span in protected(spans)] if dates else []
        if what == "measures" and not any(span.kind == "measure" for span in spans):
            return None
        masked = insert_placeholders(text, spans, self.pair) if spans else None
        return None if masked is None else Part(self.segmenter.preprocess(masked[0]), tuple(masked[1]))

    def find_all_entities(self, part: Part, with_measures: bool = True) -> tuple[str, list[Span]]:
        """The original of a part, with its numbers in digits; and its entities, including dates and measures."""
        outside = protected(find_entities(part.original, self.pair.source))
        text = map_between_spans(part.original, outside, numbers_to_digits)
        dates = find_dates(text, self.pair.source) if self.pair.converts_dates else []
        measures = find_measures(text, self.pair) if with_measures else []
        masked = [
            Span(*match.span(), "foreign")
            for placeholder in part.placeholders
            for match in re.finditer(re.escape(placeholder.original), text)
        ]
        spans: list[Span] = []
        for span in (*dates, *measures, *find_entities(text, self.pair.source), *masked):
            if not any(span.overlaps(other) for other in spans):
                spans.append(span)
        return text, sorted(spans, key=lambda span: span.start)


def join_answers(
    text: str, segments: Sequence[Segment | PendingSegment], answers: Iterator[Answer], pair: LanguagePair
) -> Translation:
    """The translation of a text from the answers for its parts, which are taken from the iterator."""
    lang = pair.tgt_lang
    by_segment = [[next(answers) for _ in one.parts] if isinstance(one, PendingSegment) else [] for one in segments]
    used = [answer for group in by_segment for answer in group]
    if not used:
        return untranslated(text, join_segments([one for one in segments if isinstance(one, Segment)], lang))
    if len(segments) == len(used) == 1:  # nothing to join
        [answer] = used
        whole = tuple(with_text(one, repair_quotes(text, one.text)) for one in answer.alternatives)
        return Translation(text, whole, pair.src_lang, lang, answer.note)
    alternatives = []
    for rank in range(min(len(answer.alternatives) for answer in used)):
        chosen = [join_alternatives([answer.alternatives[rank] for answer in group], lang) for group in by_segment]
        translated = [
            Segment(found.text, space_before=one.space_before) if isinstance(one, PendingSegment) else one
            for one, found in zip(segments, chosen, strict=True)
        ]
        joined = join_alternatives([found for found, group in zip(chosen, by_segment, strict=True) if group], lang)
        # Repaired again, because the marks of a pair may be in different segments.
        alternatives.append(with_text(joined, repair_quotes(text, join_segments(translated, lang))))
    notes = [answer.note for answer in used if answer.note]
    return Translation(text, tuple(alternatives), pair.src_lang, lang, "; ".join(notes))


def with_text(alternative: Alternative, text: str) -> Alternative:
    return alternative if alternative.text == text else dataclasses.replace(alternative, text=text)


def note_changes(translation: Translation, pair: LanguagePair) -> Translation:
    """Add a note that names the numbers, units and negations that no repair has kept."""
    if not translation.tgt_lang:
        return translation
    source = normalise(translation.source)
    changed = [write_note(find_changes(source, one.text, pair)) for one in translation.alternatives]
    notes = [f"alternative {at}: {note}" if at > 1 else note for at, note in enumerate(changed, start=1) if note]
    return (
        dataclasses.replace(translation, note="; ".join(filter(None, [translation.note, *notes])))
        if notes
        else translation
    )
