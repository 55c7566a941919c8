"""One model, one direction, ready to translate: a model folder in; translations, scores and traces out.

`Translator` is made of these. Nothing here needs knowledge of torch.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from regard import config as settings
from regard.config import DecodeConfig, Precision
from regard.core.taps import Tap, tap_paths
from regard.decode.batching import plan_batches
from regard.decode.engine import build_searcher
from regard.decode.hypotheses import Hypothesis
from regard.decode.protocols import SearchModel
from regard.decode.search import pad_sources, search
from regard.decode.shortlist import load_shortlist
from regard.errors import ConfigError
from regard.model_folder.folder import read_description
from regard.models.load import read_model
from regard.models.translation_model import TranslationModel
from regard.pipelines.translation import (
    NOTHING,
    Alternative,
    Link,
    Translation,
    TranslatorBase,
    check_n_best,
    check_pairs,
    count_texts,
    join_alternatives,
)
from regard.text.normalise import normalise
from regard.text.sentences import split_long
from regard.tokenizers.pair import TokenizerPair

if TYPE_CHECKING:  # what looks inside is imported by who looks inside
    from regard.inspect.trace import Trace

# Longer inputs are cut at sentence ends: models are trained on sentences, and attention is quadratic.
MAX_PIECES = 160
# Scoring and tracing do not cut; what is longer than this is no sentence.
MAX_WHOLE = 2048


class ModelTranslator(TranslatorBase):
    """A trained model, ready to translate."""

    def __init__(self, folder: str | Path, precision: Precision = "float32", *, shortlist: bool = False) -> None:
        """`precision` of the search: "float32" is exact; "auto" is the fastest here. Scores and traces are exact.

        With `shortlist`, a search looks only at words that the folder's shortlist has for its sources.
        """
        self.precision: Precision = settings.convert(Precision, precision, "precision")
        folder = Path(folder)
        description = read_description(folder)
        self.folder = folder
        self.src_lang, self.tgt_lang = description.src_lang, description.tgt_lang
        self.decode = description.decode
        self.tasks = description.tasks
        self.task: str | None = None
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.model = read_model(folder, description.model, TranslationModel, "translate").to(self.device)  # type: ignore[type-abstract]
        self.tokenizer = TokenizerPair.from_files(description.tokenizer, description.lowercase)
        self.shortlist = load_shortlist(folder, self.tokenizer.tgt.size) if shortlist else None
        self.taps = [module for module in self.model.modules() if isinstance(module, Tap)]
        longest = self.model.longest_target
        self.max_whole = MAX_WHOLE if longest is None else longest - 1  # one place is for the end of the sentence
        self.max_pieces = min(MAX_PIECES, self.max_whole)

    @functools.cached_property
    def engine(self) -> SearchModel[Any]:
        """What searches: laid out for speed when it is first needed."""
        return build_searcher(self.model, self.precision)

    @property
    def searcher(self) -> SearchModel[Any]:
        """The engine; but it has no taps, so while somebody listens to those of the model, the model itself."""
        return self.model if any(tap.heard for tap in self.taps) else self.engine

    def translate(
        self,
        texts: Sequence[str],
        *,
        n_best: int = 1,
        prefix: str = "",
        done: Callable[[int], None] = lambda count: None,
        **options: Any,
    ) -> list[Translation]:
        """A translation per text, in order; an empty text gives an empty translation.

        `options` are those of decoding: beam=4, length_penalty=0.6, method="sample", temperature=0.8, seed=1, …
        `prefix` is how every translation must begin. `done` hears how many texts are finished.
        """
        how = self.how(options)
        if isinstance(texts, str):
            raise ConfigError("translate() takes a list of texts; for a single text call the translator itself")
        check_n_best(n_best)
        texts = list(texts)
        parts = [self.parts(text) for text in texts]
        flat = [part for group in parts for part in group]
        found = iter(self.search(flat, how, n_best, self.prefixes(prefix, parts), count_texts(parts, done)))
        return [self.join(text, [next(found) for _ in group]) for text, group in zip(texts, parts, strict=True)]

    def how(self, options: dict[str, Any]) -> DecodeConfig:
        """The model's own decoding settings with `options` in their place, checked."""
        return settings.build(DecodeConfig, {**settings.to_dict(self.decode), **options}, "decode")

    def parts(self, text: str) -> list[str]:
        """The text as pieces that fit the model; none if there is nothing in it."""
        text = normalise(text)
        task = next((task for task in self.tasks if task and text.startswith(task)), "")
        said = text.removeprefix(task)
        return [task + part for part in split_long(said, lambda part: self.fits(task + part))] if said else []

    def fits(self, text: str) -> bool:
        return len(self.encode_src([text])[0]) <= self.max_pieces

    def for_task(self, task: str) -> ModelTranslator:
        """The same model, told what to do: one of `tasks`, or words that only one of them has."""
        chosen = [task] if task in self.tasks else [one for one in self.tasks if task in one]
        if task and len(chosen) != 1:
            known = settings.listed(self.tasks) if self.tasks else "no tasks: it does one thing only"
            found = f"{len(chosen)} tasks with" if chosen else "no task"
            raise ConfigError(f"{self.folder} has {found} {task!r}; it has {known}")
        told = copy.copy(self)
        told.task = chosen[0] if task else ""
        return told

    def encode_src(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each source, with the task before it where the model has tasks and the text does not say."""
        return self.tokenizer.encode_src([self.with_task(text) for text in texts])

    def with_task(self, text: str) -> str:
        if not self.tasks or not text or text.startswith(tuple(filter(None, self.tasks))):
            return text
        if self.task is not None:
            return self.task + text
        if len(self.tasks) > 1:
            raise ConfigError(
                f"{self.folder} has several tasks; say which (--task), or begin the text with one of "
                f"{settings.listed(self.tasks)}"
            )
        return self.tasks[0] + text

    def prefixes(self, prefix: str, parts: list[list[str]]) -> list[list[int]] | None:
        if not prefix:
            return None
        ids = self.tokenizer.encode_tgt([prefix])[0]
        return [ids if i == 0 else [] for group in parts for i in range(len(group))]

    def search(
        self,
        parts: Sequence[str],
        how: DecodeConfig,
        n_best: int = 1,
        prefixes: Sequence[Sequence[int]] | None = None,
        done: Callable[[Sequence[int]], None] = lambda indices: None,
    ) -> list[list[Alternative]]:
        """The best translations of texts that fit the model as they are. `done` hears which are finished."""
        sources = self.encode_src(parts)
        found = search(self.searcher, sources, how, self.device, n_best, prefixes, done, shortlist=self.shortlist)
        return [[self.alternative(part, one) for one in best] for part, best in zip(parts, found, strict=True)]

    def alternative(self, part: str, found: Hypothesis) -> Alternative:
        # Normalised: the bytes a model may write can make a line break, or nothing that can be seen.
        text = normalise(self.tokenizer.decode_tgt(found.ids))
        pieces = tuple(self.tokenizer.tgt.pieces(found.ids))
        return Alternative(text, found.score, found.log_prob, pieces, found.token_log_probs, ((part, text),))

    def join(self, text: str, found: list[list[Alternative]]) -> Translation:
        """The alternatives of a text's parts as translations of the text."""
        ranks = range(min(map(len, found), default=0))
        whole = tuple(join_alternatives([best[rank] for best in found], self.tgt_lang) for rank in ranks)
        return Translation(text, whole or (NOTHING,), self.src_lang, self.tgt_lang)

    def score(
        self, sources: Sequence[str], translations: Sequence[str], done: Callable[[int], None] = lambda count: None
    ) -> list[Alternative]:
        """What the model thinks of given translations: their log-probabilities, whole and by token."""
        from regard.decode.scoring import score_translations

        check_pairs(sources, translations)
        src_ids, tgt_ids = self.encode_src(sources), self.tokenizer.encode_tgt(translations)
        self.check_lengths(src_ids, tgt_ids)
        longest = [max(len(s), len(t)) + 1 for s, t in zip(src_ids, tgt_ids, strict=True)]
        scored: dict[int, Alternative] = {}
        for batch in plan_batches(longest, self.decode.batch_tokens):
            src_BM = pad_sources([src_ids[i] for i in batch], self.device)
            chosen = [tgt_ids[i] for i in batch]
            results = score_translations(
                self.model, src_BM, chosen, length_penalty=self.decode.length_penalty, rule=self.decode.beam_rule
            )
            for i, result in zip(batch, results, strict=True):
                scored[i] = dataclasses.replace(self.alternative(sources[i], result), text=translations[i])
            done(len(batch))
        return [scored[i] for i in range(len(sources))]

    def trace(self, text: str, translation: str | None = None, taps: Sequence[str] = ("*",), **options: Any) -> Trace:
        """Every number on the way from `text` to its translation, or to the one that is given."""
        from regard.inspect.explorer import Explorer, Question
        from regard.inspect.page import notebook_page
        from regard.inspect.trace import trace_translation

        src_ids = self.encode_src([text])[0]
        self.check_lengths([src_ids], [])
        if translation is not None:
            tgt_ids = self.tokenizer.encode_tgt([translation])[0]
            self.check_lengths([], [tgt_ids])
        elif src_ids:
            how = self.how(options)
            found = search(self.searcher, [src_ids], how, self.device, shortlist=self.shortlist)[0][0]
            tgt_ids = list(found.ids[: self.max_whole])
        else:
            tgt_ids = []
        pieces = self.tokenizer.src.pieces(src_ids), self.tokenizer.tgt.pieces(tgt_ids)
        trace = trace_translation(self.model, src_ids, tgt_ids, *pieces, taps)
        question = Question(text, options)
        return dataclasses.replace(trace, page=lambda: notebook_page(Explorer(self), question, tgt_ids))

    def align(self, text: str, translation: str | None = None) -> list[Link]:
        """Which word goes with which, read off the cross-attention. Without a translation, the model's own."""
        if translation is not None:
            return self.align_parts([(text, translation)])
        return self.align_parts(self.translate([text])[0].alternatives[0].parts)

    def align_parts(self, parts: Sequence[tuple[str, str]]) -> list[Link]:
        """The links of the (source, translation) parts of a text, with the words numbered through the whole of it."""
        from regard.inspect.alignment import words

        self.check_attention()
        links: list[Link] = []
        src_before = tgt_before = 0
        for source, translation in parts:
            trace = self.trace(source, translation, ("decoder.*.cross.weights",))
            src_words, tgt_words = words(trace.src_tokens[:-1]), words(trace.tgt_tokens[:-1])
            links += [
                Link(src_before + i, tgt_before + j, src_words[i], tgt_words[j])
                for i, j in trace.alignment()
                if src_words[i] and tgt_words[j]
            ]
            src_before, tgt_before = src_before + len(src_words), tgt_before + len(tgt_words)
        return links

    def check_attention(self) -> None:
        """There may be none to look at."""
        if not any(path.endswith(".cross.weights") for path in tap_paths(self.model)):
            raise ConfigError(
                "this model has no attention (model.attention = 'none'), so it cannot say which word goes with which"
            )

    def check_lengths(self, src_ids: Sequence[Sequence[int]], tgt_ids: Sequence[Sequence[int]]) -> None:
        """Scoring and tracing take a sentence whole, so it must be one that the model could have."""
        for sentences in (src_ids, tgt_ids):
            for number, ids in enumerate(sentences, start=1):
                if len(ids) > self.max_whole:
                    raise ConfigError(
                        f"sentence {number} has {len(ids):,} pieces, too many to look at whole; "
                        f"the limit is {self.max_whole:,}"
                    )
