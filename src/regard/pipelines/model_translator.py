"""`ModelTranslator`: one model folder, one direction. `Translator` chooses between several."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard import config as settings
from regard.config import DecodeConfig, Precision
from regard.config.models.base import TranslationFamily
from regard.decode.hypotheses import Hypothesis
from regard.decode.shortlist import load_shortlist
from regard.errors import ConfigError
from regard.extras import require
from regard.model_folder.folder import read_description
from regard.pipelines.backend import Backend
from regard.pipelines.translation import (
    EMPTY,
    Alternative,
    Link,
    Translation,
    TranslatorBase,
    check_n_best,
    check_pairs,
    count_texts,
    join_alternatives,
)
from regard.text.normalise import is_plain, normalise
from regard.text.sentences import split_long
from regard.tokenizers.read import translation_tokenizer

if TYPE_CHECKING:  # imported only where the model in PyTorch is asked for
    import torch

    from regard.decode.engine import Engine
    from regard.decode.protocols import SearchModel
    from regard.inspect.trace import Trace
    from regard.models.translation_model import TranslationModel

# Longer inputs are split at the ends of sentences: models are trained on sentences, and attention is quadratic.
MAX_INPUT_TOKENS = 160
# Scoring and tracing do not split; nothing longer than this is a sentence.
MAX_SENTENCE_TOKENS = 2048


class ModelTranslator(TranslatorBase):
    """A trained model that translates in one direction.

    Parameters
    ----------
    folder : path of a model folder
    precision : precision of the search. "float32" is exact, "auto" the fastest on this machine. Scores and traces are
        always computed in float32.
    shortlist : search only among the tokens that the shortlist of the folder has for the source (`regard shortlist`)
    """

    def __init__(self, folder: str | Path, precision: Precision = "float32", *, shortlist: bool = False) -> None:
        self.precision: Precision = settings.convert(Precision, precision, "precision")
        folder = Path(folder)
        description = read_description(folder)
        self.folder = folder
        self.src_lang, self.tgt_lang = description.src_lang, description.tgt_lang
        self.decode = description.decode
        self.tasks = description.tasks
        self.task: str | None = None
        if not isinstance(description.model, TranslationFamily):
            raise ConfigError(f"a {description.model.family} model does not translate: {description.model.use}")
        self.tokenizer = translation_tokenizer(folder, description)
        self.shortlist = load_shortlist(folder, self.tokenizer.tgt.size) if shortlist else None
        self.backend = Backend(folder, description, self.precision)
        longest = self.backend.longest_target
        self.max_sentence_tokens = MAX_SENTENCE_TOKENS if longest is None else longest - 1  # without the EOS token
        self.max_input_tokens = min(MAX_INPUT_TOKENS, self.max_sentence_tokens)

    @property
    def model(self) -> TranslationModel:
        """The model in PyTorch, loaded when it is first asked for."""
        return self.backend.live.model

    @property
    def device(self) -> torch.device:
        return self.backend.live.device

    @property
    def searcher(self) -> Engine | SearchModel[Any]:
        """The engine, or the model itself while one of its taps is observed: the engine has no taps."""
        return self.backend.live.searcher

    def translate(
        self,
        texts: Sequence[str],
        *,
        n_best: int = 1,
        prefix: str = "",
        done: Callable[[int], None] = lambda count: None,
        **options: Any,
    ) -> list[Translation]:
        """Translate each text; an empty text has an empty translation.

        Parameters
        ----------
        texts : list of texts
        n_best : number of alternatives per text
        prefix : text with which every translation must begin
        done : called with the number of texts that have just been finished
        options : decoding settings: beam=4, length_penalty=0.6, method="sample", temperature=0.8, seed=1, …
        """
        config = self.decode_config(options)
        if isinstance(texts, str):
            raise ConfigError("translate() takes a list of texts; for a single text call the translator itself")
        check_n_best(n_best)
        texts = list(texts)
        parts = [self.split(text) for text in texts]
        flat = [part for group in parts for part in group]
        found = iter(self.search(flat, config, n_best, self.encode_prefix(prefix, parts), count_texts(parts, done)))
        return [self.join(text, [next(found) for _ in group]) for text, group in zip(texts, parts, strict=True)]

    def decode_config(self, options: dict[str, Any]) -> DecodeConfig:
        """The decoding settings of the model, overridden by `options` and checked."""
        return settings.build(DecodeConfig, {**settings.to_dict(self.decode), **options}, "decode")

    def split(self, text: str) -> list[str]:
        """Split a text into parts that fit the model; an empty text has none."""
        text = normalise(text)
        task = next((task for task in self.tasks if task and text.startswith(task)), "")
        rest = text.removeprefix(task)
        return [task + part for part in split_long(rest, lambda part: self.fits(task + part))] if rest else []

    def fits(self, text: str) -> bool:
        # A token is at least a byte of the text, as long as the tokenizer does not replace characters by longer ones.
        if not self.tasks and is_plain(text) and len(text.encode()) < self.max_input_tokens:
            return True
        return len(self.encode_src([text])[0]) <= self.max_input_tokens

    def for_task(self, task: str) -> ModelTranslator:
        """The same model with a fixed task: one of `tasks`, or a part of the name of exactly one of them."""
        chosen = [task] if task in self.tasks else [one for one in self.tasks if task in one]
        if task and len(chosen) != 1:
            known = f"choose one of {settings.listed(self.tasks)}" if self.tasks else "the model has no tasks"
            found = f"{len(chosen)} tasks match" if chosen else "no task matches"
            raise ConfigError(f"{self.folder}: {found} {task!r}; {known}")
        translator = copy.copy(self)
        translator.task = chosen[0] if task else ""
        return translator

    def encode_src(self, texts: Sequence[str]) -> list[list[int]]:
        """The token ids of each source, with the task before it unless the text begins with one."""
        return self.tokenizer.encode_src([self.with_task(text) for text in texts])

    def with_task(self, text: str) -> str:
        if not self.tasks or not text or text.startswith(tuple(filter(None, self.tasks))):
            return text
        if self.task is not None:
            return self.task + text
        if len(self.tasks) > 1:
            raise ConfigError(
                f"{self.folder} has several tasks; choose one (--task), or begin the text with one of "
                f"{settings.listed(self.tasks)}"
            )
        return self.tasks[0] + text

    def encode_prefix(self, prefix: str, parts: list[list[str]]) -> list[list[int]] | None:
        """The token ids of the prefix for the first part of each text, none for the others; None without a prefix."""
        if not prefix:
            return None
        ids = self.tokenizer.encode_tgt([prefix])[0]
        return [ids if i == 0 else [] for group in parts for i in range(len(group))]

    def search(
        self,
        parts: Sequence[str],
        config: DecodeConfig,
        n_best: int = 1,
        prefixes: Sequence[Sequence[int]] | None = None,
        done: Callable[[Sequence[int]], None] = lambda indices: None,
    ) -> list[list[Alternative]]:
        """The `n_best` translations of each part. `done` is called with the indices of finished parts."""
        sources = self.encode_src(parts)
        found = self.backend.search(sources, config, n_best, prefixes, done, self.shortlist)
        return [[self.to_alternative(part, one) for one in best] for part, best in zip(parts, found, strict=True)]

    def to_alternative(self, part: str, hypothesis: Hypothesis) -> Alternative:
        # Normalised, because byte tokens can form line breaks and invisible characters.
        text = normalise(self.tokenizer.decode_tgt(hypothesis.ids))
        pieces = tuple(self.tokenizer.tgt.pieces(hypothesis.ids))
        scores = hypothesis.score, hypothesis.log_prob
        return Alternative(text, *scores, pieces, hypothesis.token_log_probs, ((part, text),))

    def join(self, text: str, found: list[list[Alternative]]) -> Translation:
        """Join the alternatives of the parts of a text."""
        ranks = range(min(map(len, found), default=0))
        whole = tuple(join_alternatives([best[rank] for best in found], self.tgt_lang) for rank in ranks)
        return Translation(text, whole or (EMPTY,), self.src_lang, self.tgt_lang)

    def score(
        self, sources: Sequence[str], translations: Sequence[str], done: Callable[[int], None] = lambda count: None
    ) -> list[Alternative]:
        """Log-probabilities of given translations, in total and per token."""
        check_pairs(sources, translations)
        src_ids, tgt_ids = self.encode_src(sources), self.tokenizer.encode_tgt(translations)
        self.check_lengths(src_ids, tgt_ids)
        scored = self.backend.score(src_ids, tgt_ids, self.decode, done)
        return [
            dataclasses.replace(self.to_alternative(source, one), text=translation)
            for source, translation, one in zip(sources, translations, scored, strict=True)
        ]

    def trace(self, text: str, translation: str | None = None, taps: Sequence[str] = ("*",), **options: Any) -> Trace:
        """All values that the model computes for `text` and its translation, or the given one, at the chosen taps."""
        require("torch", "a trace")
        from regard.inspect.explorer import Explorer, Question
        from regard.inspect.page import notebook_page
        from regard.inspect.trace import trace_translation

        src_ids = self.encode_src([text])[0]
        self.check_lengths([src_ids], [])
        if translation is not None:
            tgt_ids = self.tokenizer.encode_tgt([translation])[0]
            self.check_lengths([], [tgt_ids])
        elif src_ids:
            config = self.decode_config(options)
            found = self.backend.search([src_ids], config, shortlist=self.shortlist)[0][0]
            tgt_ids = list(found.ids[: self.max_sentence_tokens])
        else:
            tgt_ids = []
        pieces = self.tokenizer.src.pieces(src_ids), self.tokenizer.tgt.pieces(tgt_ids)
        trace = trace_translation(self.model, src_ids, tgt_ids, *pieces, taps)
        question = Question(text, options)
        return dataclasses.replace(trace, page=lambda: notebook_page(Explorer(self), question, tgt_ids))

    def align(self, text: str, translation: str | None = None) -> list[Link]:
        """Word alignment of `text` and its translation, or the given one, from the cross-attention weights."""
        if translation is not None:
            return self.align_parts([(text, translation)])
        return self.align_parts(self.translate([text])[0].alternatives[0].parts)

    def align_parts(self, parts: Sequence[tuple[str, str]]) -> list[Link]:
        """Word alignment of (source, translation) parts; words are numbered through all parts."""
        require("torch", "word alignment")
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
        """Raise if the model has no cross-attention."""
        from regard.core.taps import tap_paths

        if not any(path.endswith(".cross.weights") for path in tap_paths(self.model)):
            raise ConfigError("this model has no attention (model.attention = 'none'), so there is no word alignment")

    def check_lengths(self, src_ids: Sequence[Sequence[int]], tgt_ids: Sequence[Sequence[int]]) -> None:
        """Raise if a sentence is longer than the model can take; scoring and tracing do not split."""
        for sentences in (src_ids, tgt_ids):
            for number, ids in enumerate(sentences, start=1):
                if len(ids) > self.max_sentence_tokens:
                    raise ConfigError(
                        f"sentence {number} has {len(ids):,} tokens; scoring and tracing are limited to "
                        f"{self.max_sentence_tokens:,}: split it into shorter sentences"
                    )
