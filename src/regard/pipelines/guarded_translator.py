"""A one-way translator whose answers are looked at before anybody sees them.

A text is laid out first (`text.layout`). Each part is then translated and judged (`text.guards`), and what has a fault
goes on to the next of these, all the faulty parts together:

1. the other hypotheses of a wider search
2. a search that repeats no three pieces
3. stand-ins for the numbers, dates and names that were lost, too
4. its clauses, each by itself
5. a clause cut around what is kept, and each piece translated alone
6. what is left of a piece is mended as text; a piece for which the model has nothing stays as it is, with a note

Each step is taken once, so there is always an answer, and the same question always has the same one.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from regard.config import DecodeConfig
from regard.guards import checks
from regard.guards.dates import find_dates, mend_months, other_way, without_commas
from regard.guards.layout import Layout, Part, Words, parts_of
from regard.guards.numbers import in_digits
from regard.guards.placeholders import put_back, put_in, stand_in
from regard.guards.segments import Stretch, cut_around, translate_marks, weave
from regard.pipelines.translation import (
    NOTHING,
    Alternative,
    Translation,
    TranslatorBase,
    as_it_is,
    count_texts,
    join_alternatives,
)
from regard.text.entities import Span, change_between, find_kept, fixed, is_all_kept
from regard.text.language import base_language
from regard.text.normalise import normalise
from regard.text.sentences import CLAUSE_MARKS, split_clauses

WIDER = 4  # hypotheses at least, where the first had a fault
NO_WORD = "the model has nothing for {!r}, which was left as it is"


class Searching(Protocol):
    """What is needed of a one-way translator."""

    src_lang: str
    tgt_lang: str

    def how(self, options: dict[str, Any]) -> DecodeConfig: ...
    def parts(self, text: str) -> list[str]: ...
    def prefixes(self, prefix: str, parts: list[list[str]]) -> list[list[int]] | None: ...
    def search(
        self,
        parts: Sequence[str],
        how: DecodeConfig,
        n_best: int = 1,
        prefixes: Sequence[Sequence[int]] | None = None,
        done: Callable[[Sequence[int]], None] = lambda indices: None,
    ) -> list[list[Alternative]]: ...


@dataclass(frozen=True)
class Answer:
    alternatives: tuple[Alternative, ...]
    note: str = ""


class GuardedTranslator(TranslatorBase):
    def __init__(self, way: Searching, read: Callable[[str], str] = lambda text: text) -> None:
        """`read` is done to what the model gets to see: a change of script, say."""
        self.way = way
        self.layout = Layout(way.src_lang, way.tgt_lang, way.parts, read)
        self.chinese = self.layout.chinese
        self.between_chinese_and_english = {base_language(way.src_lang), base_language(way.tgt_lang)} == {"zh", "en"}

    def translate(
        self,
        texts: Sequence[str],
        *,
        n_best: int = 1,
        prefix: str = "",
        done: Callable[[int], None] = lambda count: None,
        **options: Any,
    ) -> list[Translation]:
        """As `ModelTranslator.translate`; a text in which there is nothing to translate is given back as it is."""
        how = self.way.how(options)
        plans = [self.layout.lay_out(normalise(text)) for text in texts]
        parts = [parts_of(plan) for plan in plans]
        forced = iter(self.way.prefixes(prefix, [[part.source for part in group] for group in parts]) or ())
        flat = [dataclasses.replace(part, forced=tuple(next(forced, ()))) for group in parts for part in group]
        answers = iter(self.solve(flat, how, n_best, self.by_clauses, count_texts(parts, done)))
        return [self.join(text, plan, answers) for text, plan in zip(texts, plans, strict=True)]

    # -- the search

    def solve(
        self,
        parts: Sequence[Part],
        how: DecodeConfig,
        n_best: int,
        at_last: Callable[[Sequence[Part], DecodeConfig], list[Answer]],
        done: Callable[[Sequence[int]], None] = lambda indices: None,
    ) -> list[Answer]:
        """An answer for each part; `at_last` has one where no search has. What comes twice is asked once."""
        places: dict[Part, list[int]] = {}
        for at, part in enumerate(parts):
            places.setdefault(part, []).append(at)
        if how.method == "beam" and len(places) < len(parts):
            once = list(places)

            def hear_all(some: Sequence[int]) -> None:
                done([place for at in some for place in places[once[at]]])

            solved = dict(zip(once, self.solve(once, how, n_best, at_last, hear_all), strict=True))
            return [solved[part] for part in parts]
        wide = dataclasses.replace(how, method="beam", beam=max(how.beam, n_best, WIDER))
        unrepeated = dataclasses.replace(wide, no_repeat_ngram=min(how.no_repeat_ngram or 3, 3))
        answers: dict[int, Answer] = {}
        fair: dict[int, Answer] = {}  # something is to be said against them, but nothing grave
        asked = dict(enumerate(parts))
        for number, (method, count) in enumerate([(how, n_best), (wide, wide.beam), (unrepeated, wide.beam)]):
            hear = done if number == 0 else lambda indices: None
            self.ask(asked, method, count, n_best, answers, fair, hear)
            if number > 0:  # a wider search had nothing better
                answers |= {at: fair[at] for at in asked if at in fair and at not in answers}
            asked = {at: part for at, part in asked.items() if at not in answers}
        for dates_alone in (True, False):
            masked = {at: self.mask_lost(part, dates_alone) for at, part in asked.items() if at not in answers}
            self.ask({at: part for at, part in masked.items() if part}, wide, wide.beam, n_best, answers, fair)
        answers |= {at: fair[at] for at in asked if at in fair and at not in answers}
        rest = [at for at in asked if at not in answers]
        answers |= zip(rest, at_last([asked[at] for at in rest], unrepeated), strict=True)
        return [answers[at] for at in range(len(parts))]

    def ask(
        self,
        asked: Mapping[int, Part],
        how: DecodeConfig,
        count: int,
        n_best: int,
        answers: dict[int, Answer],
        fair: dict[int, Answer],
        done: Callable[[Sequence[int]], None] = lambda indices: None,
    ) -> None:
        """Search, and enter what is found without fault, or with none that is grave."""
        if not asked:
            return
        prefixes = [part.forced for part in asked.values()]
        sources = [part.source for part in asked.values()]
        found = self.way.search(sources, how, count, prefixes if any(prefixes) else None, done)
        for (at, part), alternatives in zip(asked.items(), found, strict=True):
            judged = [self.judge(part, one) for one in alternatives]
            good = [one for one, said in judged if not said]
            light = sorted((pair for pair in judged if not checks.is_grave(pair[1])), key=lambda pair: len(pair[1]))
            if good:
                answers[at] = Answer(tuple(good[:n_best]))
            elif part.forced:  # how it begins is somebody's wish, so that it can only be taken as it is
                answers[at] = Answer(tuple(one for one, _ in (light or judged)[:n_best]))
            elif light:
                fair.setdefault(at, Answer((light[0][0],)))

    def judge(self, part: Part, found: Alternative) -> tuple[Alternative, list[checks.Fault]]:
        """The alternative mended, with what is meant in the place of stand-ins; and what is wrong with it."""
        text = self.mend(part.source, found.text)
        said = checks.faults(part.source, text, self.chinese)
        whole = put_back(part.source, text, part.stand_ins)
        if whole is None:
            return found, [*said, "lost"]
        return dataclasses.replace(found, text=whole, parts=((part.meant, whole),)), said

    def mend(self, source: str, text: str) -> str:
        text = checks.mend_numbers(source, mend_months(source, text, self.chinese), self.chinese)
        text = checks.mend_quotes(source, text)
        return checks.mend_names(source, text, self.chinese)

    def mask_lost(self, part: Part, dates_alone: bool) -> Part | None:
        """The part with stand-ins for all that is kept, loose things too; None if there is nothing, or too much.

        With `dates_alone` the loose things are dates: the fewer stand-ins, the more is left of the sentence.
        """
        text, spans = self.kept_in(part)
        if dates_alone:
            dates = [span for span in spans if span.kind == "date"]
            spans = [span for span in spans if span in dates or span in fixed(spans)] if dates else []
        masked = stand_in(text, spans, self.way.src_lang, self.way.tgt_lang) if spans else None
        return None if masked is None else Part(self.layout.read(masked[0]), tuple(masked[1]))

    def kept_in(self, part: Part) -> tuple[str, list[Span]]:
        """The part with its numbers in digits, but those of code and addresses; and all that is kept of it."""
        text = change_between(part.meant, fixed(find_kept(part.meant, self.chinese)), in_digits)
        dates = find_dates(text, self.chinese) if self.between_chinese_and_english else []
        stood_for = [
            Span(*at.span(), "foreign") for one in part.stand_ins for at in re.finditer(re.escape(one.meant), text)
        ]
        kept: list[Span] = []
        for span in (*dates, *find_kept(text, self.chinese), *stood_for):
            if not any(span.overlaps(other) for other in kept):
                kept.append(span)
        return text, sorted(kept, key=lambda span: span.start)

    # -- clause by clause, and piece by piece

    def by_clauses(self, parts: Sequence[Part], how: DecodeConfig) -> list[Answer]:
        """Parts that could not be translated as they are: each clause like a text of its own."""
        cut = [self.clauses(part) for part in parts]
        plans = [[self.lay_out_clause(part, one) for one in some] for part, some in zip(parts, cut, strict=True)]
        asked = [part for some in plans if len(some) > 1 for plan in some for part in parts_of(plan)]
        answers = iter(self.solve(asked, how, 1, self.piecewise))
        found: dict[int, Answer] = {}
        for at, (part, some, laid) in enumerate(zip(parts, cut, plans, strict=True)):
            if len(some) > 1:
                clauses = [put_in(one, part.stand_ins) for one in some]
                whole = [self.join(clause, plan, answers) for clause, plan in zip(clauses, laid, strict=True)]
                joined = self.join_clauses(part, clauses, whole)
                if not checks.is_loop(part.meant, joined.alternatives[0].text):  # though no clause is
                    found[at] = joined
        rest = [at for at in range(len(parts)) if at not in found]
        found |= zip(rest, self.piecewise([parts[at] for at in rest], how), strict=True)
        return [found[at] for at in range(len(parts))]

    def lay_out_clause(self, part: Part, clause: str) -> list[Stretch | Words]:
        """With the stand-ins that the part has for it: by itself, it might look as if there were nothing to keep."""
        source = clause.rstrip(CLAUSE_MARKS)
        if is_all_kept(source):
            return [Stretch(source, kept=True)] if source else []
        return [Words([Part(source, tuple(one for one in part.stand_ins if one.source in source))], spaced=False)]

    def clauses(self, part: Part) -> list[str]:
        whole_dates = self.between_chinese_and_english
        return split_clauses(without_commas(part.source, self.chinese) if whole_dates else part.source)

    def join_clauses(self, part: Part, clauses: Sequence[str], found: Sequence[Translation]) -> Answer:
        lang = self.way.tgt_lang
        woven: list[Stretch] = []
        for at, (clause, one) in enumerate(zip(clauses, found, strict=True)):
            said = clause.rstrip(CLAUSE_MARKS)
            marks = clause[len(said) :]
            if one.text != said:  # else it was left as it is
                clause = checks.without_end(one.text) + translate_marks(marks, lang) if marks else one.text
            woven.append(Stretch(checks.in_mid_sentence(clause) if at else clause, spaced=at > 0))
        text = weave(woven, lang)
        joined = join_alternatives([one.alternatives[0] for one in found], lang)
        notes = "; ".join(one.note for one in found if one.note)
        return Answer((dataclasses.replace(joined, text=text, parts=((part.meant, text),)),), notes)

    def piecewise(self, parts: Sequence[Part], how: DecodeConfig) -> list[Answer]:
        """What could not be translated by clauses either: piece by piece, and whatever comes out is mended."""
        cut = [self.pieces(part) for part in parts]
        texts = [piece.text for pieces in cut for piece in pieces if not piece.kept]
        found = iter(self.way.search(texts, how, how.beam) if texts else ())
        return [self.assemble(part, pieces, found) for part, pieces in zip(parts, cut, strict=True)]

    def pieces(self, part: Part) -> list[Stretch]:
        """What is kept and what is between."""
        text, spans = self.kept_in(part)
        dates = {span.of(text): other_way(span.of(text), self.chinese) for span in spans if span.kind == "date"}
        found = []
        for one in cut_around(text, spans):
            kept = one.kept or is_all_kept(one.text)
            found.append(
                dataclasses.replace(
                    one, text=dates.get(one.text, self.layout.with_marks(one)) if kept else one.text, kept=kept
                )
            )
        return found

    def assemble(self, part: Part, pieces: Sequence[Stretch], found: Iterator[list[Alternative]]) -> Answer:
        woven, notes, used = [], [], []
        for piece in pieces:
            if not piece.kept:
                alternatives = next(found)
                used.append(alternatives[0] if alternatives else NOTHING)
                words = next(filter(None, (self.force(part, piece.text, one.text) for one in alternatives)), None)
                if words is None:
                    notes.append(NO_WORD.format(piece.text))
                piece = dataclasses.replace(piece, text=words or piece.text)
            woven.append(piece)
        text = self.unlooped(part, woven)
        if text is None:
            text, notes = part.meant, [NO_WORD.format(part.meant)]
        whole = dataclasses.replace(join_alternatives(used, self.way.tgt_lang), text=text, parts=((part.meant, text),))
        return Answer((whole,), "; ".join(notes))

    def unlooped(self, part: Part, woven: list[Stretch]) -> str | None:
        """The pieces as one text; where together they are a loop, without the last of what was translated.

        None where nothing would be left of that.
        """
        text = weave(woven, self.way.tgt_lang)
        while checks.is_loop(part.meant, text):
            translated = [at for at, piece in enumerate(woven) if not piece.kept]
            gone = translated[-max(len(translated) // 4, 1) :]
            if len(gone) == len(translated):
                return None
            woven = [piece for at, piece in enumerate(woven) if at not in gone]
            text = weave(woven, self.way.tgt_lang)
        return text

    def force(self, part: Part, source: str, text: str) -> str:
        """The text of a piece without what is grave in it; nothing where nothing would be left."""
        text = checks.drop_copied(part.meant, self.mend(source, text), self.chinese)
        text = checks.cut_loops(source, text)
        if not checks.ends_sentence(source):
            text = checks.without_end(text)
        nothing = not any(character.isalnum() for character in text)
        return "" if nothing or checks.is_grave(checks.faults(source, text, self.chinese)) else text

    # -- after the search

    def join(self, text: str, plan: Sequence[Stretch | Words], answers: Iterator[Answer]) -> Translation:
        """The stretches of a text with the answers to its parts, as one translation."""
        lang = self.way.tgt_lang
        solved = [[next(answers) for _ in one.parts] if isinstance(one, Words) else [] for one in plan]
        asked = [answer for some in solved for answer in some]
        if not asked:
            return as_it_is(text, weave([one for one in plan if isinstance(one, Stretch)], lang))
        whole = []
        for rank in range(min(len(answer.alternatives) for answer in asked)):
            chosen = [join_alternatives([answer.alternatives[rank] for answer in some], lang) for some in solved]
            stretches = [
                Stretch(found.text, spaced=one.spaced) if isinstance(one, Words) else one
                for one, found in zip(plan, chosen, strict=True)
            ]
            joined = join_alternatives([found for found, some in zip(chosen, solved, strict=True) if some], lang)
            woven = checks.mend_quotes(text, weave(stretches, lang))  # pairs may have been cut apart
            whole.append(dataclasses.replace(joined, text=woven))
        notes = [answer.note for answer in asked if answer.note]
        return Translation(text, tuple(whole), self.way.src_lang, lang, "; ".join(notes))
