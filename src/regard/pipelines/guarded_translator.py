"""A translator that checks every translation before returning it.

A text is split into segments first (`guards.segmenter`). Each part of it is translated and checked (`guards.checks`).
A part whose translation has a problem is tried again in these ways, in order, together with the other such parts:

1. the other hypotheses of a wider beam
2. a beam search that does not repeat trigrams
3. placeholders for dates, then also for numbers and names, then for numbers with their units
4. each clause on its own
5. the text between the entities on its own

Severe problems that remain are removed from the text. A segment for which the model has no usable translation is left
untranslated, with a note. A note also names the numbers, units and negations that differ in the end. Every step is
taken at most once, and the result is deterministic.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from regard.guards.language_pair import find_language_pair
from regard.guards.segmenter import Segmenter, parts_of
from regard.pipelines.fallbacks import ClauseFallback
from regard.pipelines.guarded_search import GuardedSearch, UnguardedTranslator, join_answers, note_changes
from regard.pipelines.translation import Translation, TranslatorBase, count_texts
from regard.text.normalise import normalise


class GuardedTranslator(TranslatorBase):
    def __init__(self, translator: UnguardedTranslator, preprocess: Callable[[str], str] = lambda text: text) -> None:
        """`preprocess` is applied to every input of the model, for example to convert its script."""
        self.translator = translator
        self.pair = find_language_pair(translator.src_lang, translator.tgt_lang)
        self.segmenter = Segmenter(self.pair, translator.split, preprocess)
        self.search = GuardedSearch(translator, self.segmenter)
        self.fallback = ClauseFallback(self.search)

    def translate(
        self,
        texts: Sequence[str],
        *,
        n_best: int = 1,
        prefix: str = "",
        done: Callable[[int], None] = lambda count: None,
        **options: Any,
    ) -> list[Translation]:
        """As `ModelTranslator.translate`; a text without anything to translate is returned unchanged."""
        config = self.translator.decode_config(options)
        segmented = [self.segmenter.segment(normalise(text)) for text in texts]
        parts = [parts_of(segments) for segments in segmented]
        prefix_ids = self.translator.encode_prefix(prefix, [[part.source for part in group] for group in parts])
        flat = [part for group in parts for part in group]
        if prefix_ids is not None:
            flat = [
                dataclasses.replace(part, prefix_ids=tuple(ids)) for part, ids in zip(flat, prefix_ids, strict=True)
            ]
        answers = iter(self.search.search(flat, config, n_best, self.fallback, count_texts(parts, done)))
        joined = [
            join_answers(text, segments, answers, self.pair) for text, segments in zip(texts, segmented, strict=True)
        ]
        return [note_changes(translation, self.pair) for translation in joined]
