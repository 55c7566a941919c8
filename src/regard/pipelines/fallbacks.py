"""Fallbacks for parts that cannot be translated as a whole: steps 4 and 5 of `guarded_translator.py`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from regard.config import DecodeConfig
from regard.guards.checks import find_problems, has_letter_or_digit, is_severe, repair
from regard.guards.clauses import ends_sentence, lower_first_word, remove_sentence_end
from regard.guards.copies import remove_copied_words
from regard.guards.dates import remove_date_commas
from regard.guards.loops import has_loop, remove_loops
from regard.guards.placeholders import restore_source, translate_entity
from regard.guards.segmenter import Part, PendingSegment, parts_of
from regard.guards.segments import Segment, join_segments, split_at_spans, translate_punctuation
from regard.pipelines.guarded_search import Answer, GuardedSearch, join_answers
from regard.pipelines.translation import EMPTY, Alternative, Translation, join_alternatives
from regard.text.literals import has_only_literals
from regard.text.sentences import CLAUSE_MARKS, split_clauses

NO_TRANSLATION = "no translation found for {!r}, which was left untranslated"


class ClauseFallback:
    """Translates each clause of a part on its own; a part of a single clause, and a clause that fails, by segments."""

    def __init__(self, search: GuardedSearch) -> None:
        self.search, self.pair = search, search.pair
        self.by_segments = SegmentFallback(search)

    def __call__(self, parts: Sequence[Part], config: DecodeConfig) -> list[Answer]:
        clauses = [self.split(part) for part in parts]
        segmented = [
            [self.segment(part, clause) for clause in group] for part, group in zip(parts, clauses, strict=True)
        ]
        asked = [part for group in segmented if len(group) > 1 for segments in group for part in parts_of(segments)]
        answers = iter(self.search.search(asked, config, 1, self.by_segments))
        found: dict[int, Answer] = {}
        for at, (part, group, segments_of_group) in enumerate(zip(parts, clauses, segmented, strict=True)):
            if len(group) > 1:
                originals = [restore_source(clause, part.placeholders) for clause in group]
                pairs = zip(originals, segments_of_group, strict=True)
                translations = [join_answers(clause, segments, answers, self.pair) for clause, segments in pairs]
                joined = self.join(part, originals, translations)
                if not has_loop(part.original, joined.alternatives[0].text):  # clauses may form a loop together
                    found[at] = joined
        rest = [at for at in range(len(parts)) if at not in found]
        found |= zip(rest, self.by_segments([parts[at] for at in rest], config), strict=True)
        return [found[at] for at in range(len(parts))]

    def split(self, part: Part) -> list[str]:
        source = remove_date_commas(part.source, self.pair.source) if self.pair.converts_dates else part.source
        return split_clauses(source)

    def segment(self, part: Part, clause: str) -> list[Segment | PendingSegment]:
        """The clause as one segment, with the placeholders of the part."""
        source = clause.rstrip(CLAUSE_MARKS)
        if has_only_literals(source):
            return [Segment(source, verbatim=True)] if source else []
        placeholders = tuple(each for each in part.placeholders if each.source in source)
        return [PendingSegment([Part(source, placeholders)], space_before=False)]

    def join(self, part: Part, clauses: Sequence[str], translations: Sequence[Translation]) -> Answer:
        lang = self.pair.tgt_lang
        segments: list[Segment] = []
        for at, (clause, translation) in enumerate(zip(clauses, translations, strict=True)):
            words = clause.rstrip(CLAUSE_MARKS)
            marks = translate_punctuation(clause[len(words) :], lang)
            text = clause  # if it was left untranslated
            if translation.text != words:
                text = remove_sentence_end(translation.text) + marks if marks else translation.text
            segments.append(Segment(lower_first_word(text) if at else text, space_before=at > 0))
        text = join_segments(segments, lang)
        joined = join_alternatives([translation.alternatives[0] for translation in translations], lang)
        notes = "; ".join(translation.note for translation in translations if translation.note)
        return Answer((dataclasses.replace(joined, text=text, parts=((part.original, text),)),), notes)


class SegmentFallback:
    """Copies the entities of a part and translates the segments between them, without their severe problems."""

    def __init__(self, search: GuardedSearch) -> None:
        self.search, self.pair = search, search.pair

    def __call__(self, parts: Sequence[Part], config: DecodeConfig) -> list[Answer]:
        segmented = [self.segment(part) for part in parts]
        texts = [segment.text for segments in segmented for segment in segments if not segment.verbatim]
        found = iter(self.search.translator.search(texts, config, config.beam) if texts else ())
        return [self.assemble(part, segments, found) for part, segments in zip(parts, segmented, strict=True)]

    def segment(self, part: Part) -> list[Segment]:
        """The entities, dates and measures translated, and the segments between them."""
        text, spans = self.search.find_all_entities(part)
        ruled = [span for span in spans if span.kind in ("date", "measure")]
        written_as = {span.of(text): translate_entity(span.of(text), span.kind, self.pair) for span in ruled}
        found = []
        for segment in split_at_spans(text, spans):
            if segment.verbatim or has_only_literals(segment.text):
                written = written_as.get(segment.text, self.search.segmenter.target_text(segment))
                segment = dataclasses.replace(segment, text=written, verbatim=True)
            found.append(segment)
        return found

    def assemble(self, part: Part, segments: Sequence[Segment], found: Iterator[list[Alternative]]) -> Answer:
        """The part from its segments; `found` has the translations of those that are not verbatim, in order."""
        translated, notes, used = [], [], []
        for segment in segments:
            if not segment.verbatim:
                alternatives = next(found)
                used.append(alternatives[0] if alternatives else EMPTY)
                cleaned = (self.clean(part, segment.text, alternative.text) for alternative in alternatives)
                text = next(filter(None, cleaned), None)
                if text is None:
                    notes.append(NO_TRANSLATION.format(segment.text))
                segment = dataclasses.replace(segment, text=text or segment.text)
            translated.append(segment)
        whole = self.join_without_loop(part, translated)
        if whole is None:
            whole, notes = part.original, [NO_TRANSLATION.format(part.original)]
        joined = join_alternatives(used, self.pair.tgt_lang)
        return Answer((dataclasses.replace(joined, text=whole, parts=((part.original, whole),)),), "; ".join(notes))

    def join_without_loop(self, part: Part, segments: list[Segment]) -> str | None:
        """Join the segments; while the result has a loop, drop the last translated ones. None if none would be left."""
        text = join_segments(segments, self.pair.tgt_lang)
        while has_loop(part.original, text):
            translated = [at for at, segment in enumerate(segments) if not segment.verbatim]
            dropped = translated[-max(len(translated) // 4, 1) :]
            if len(dropped) == len(translated):
                return None
            segments = [segment for at, segment in enumerate(segments) if at not in dropped]
            text = join_segments(segments, self.pair.tgt_lang)
        return text

    def clean(self, part: Part, source: str, text: str) -> str:
        """The translation of a segment without its severe problems; empty if that is not possible."""
        text = remove_copied_words(part.original, repair(source, text, self.pair), self.pair.source)
        text = remove_loops(source, text)
        if not ends_sentence(source):
            text = remove_sentence_end(text)
        usable = has_letter_or_digit(text) and not is_severe(find_problems(source, text, self.pair))
        return text if usable else ""
