"""The façade: a model folder in; translations, scores and traces out.

from regard import Translator
translate = Translator("runs/multi30k-en-de/model")
translate("Two dogs are running.")
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, overload

import torch

from regard import config as settings
from regard.config import DecodeConfig, SearchPrecision
from regard.core.taps import Tap, tap_paths
from regard.decode.batching import plan_batches
from regard.decode.engine import build_searcher
from regard.decode.hypothesis import Hypothesis
from regard.decode.model import SearchModel
from regard.decode.scoring import score_translations
from regard.decode.search import pad_sources, search
from regard.errors import ConfigError, ModelFolderError
from regard.folder import read_description, read_weights
from regard.inspect.alignment import words
from regard.inspect.explorer import Explorer, Question
from regard.inspect.page import notebook_page
from regard.inspect.trace import Trace, trace_translation
from regard.models.build import build_model
from regard.models.translation import TranslationModel
from regard.text.normalise import normalise
from regard.text.sentences import join_sentences, split_long
from regard.text.tokenizer import Tokenizer

# Longer inputs are cut at sentence ends: models are trained on sentences, and attention is quadratic.
MAX_PIECES = 160
# Scoring and tracing do not cut; what is longer than this is no sentence.
MAX_WHOLE = 2048


@dataclass(frozen=True)
class Alternative:
    """One translation with the model's opinion of it."""

    text: str
    score: float  # log-probability, normalised by length: comparable between alternatives
    log_prob: float
    tokens: tuple[str, ...]
    token_log_probs: tuple[float, ...]  # one per token, and one for the end of the sentence
    parts: tuple[tuple[str, str], ...] = ()  # (source, translation): several where a long text was cut


@dataclass(frozen=True)
class Translation:
    source: str
    alternatives: tuple[Alternative, ...]  # best first

    @property
    def text(self) -> str:
        return self.alternatives[0].text

    @property
    def score(self) -> float:
        return self.alternatives[0].score

    def __str__(self) -> str:
        return self.text


class Link(NamedTuple):
    """A source word and the target word that looked at it, by their numbers (from 0) and as text."""

    src: int
    tgt: int
    src_word: str
    tgt_word: str


class Translator:
    """A trained model, ready to translate. Nothing here needs knowledge of torch."""

    def __init__(self, folder: str | Path, precision: SearchPrecision = "float32") -> None:
        """`precision` of the search: "float32" is exact; "auto" is the fastest here. Scores and traces are exact."""
        folder = Path(folder)
        description = read_description(folder)
        self.folder = folder
        self.src_lang, self.tgt_lang = description.src_lang, description.tgt_lang
        self.decode = description.decode
        self.tokenizer = Tokenizer.from_files(description.tokenizer, description.lowercase)
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.model = load_model(folder, description.model).to(self.device)
        self.precision: SearchPrecision = precision
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

    @overload
    def __call__(self, text: str, **options: Any) -> str: ...
    @overload
    def __call__(self, text: Sequence[str], **options: Any) -> list[str]: ...
    def __call__(self, text: str | Sequence[str], **options: Any) -> str | list[str]:
        """The translation of a text, or of each of several. Options as in `translate`."""
        if isinstance(text, str):
            return self.translate([text], **options)[0].text
        return [translation.text for translation in self.translate(text, **options)]

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
        texts = list(texts)
        parts = [self.parts(text) for text in texts]
        sources = self.tokenizer.encode_src([part for group in parts for part in group])
        prefixes = self.prefixes(prefix, parts)
        found = iter(search(self.searcher, sources, how, self.device, n_best, prefixes, count_texts(parts, done)))
        return [self.join(*both, [next(found) for _ in both[1]]) for both in zip(texts, parts, strict=True)]

    def how(self, options: dict[str, Any]) -> DecodeConfig:
        """The model's own decoding settings with `options` in their place, checked."""
        return settings.build(DecodeConfig, {**settings.to_dict(self.decode), **options}, "decode")

    def parts(self, text: str) -> list[str]:
        """The text as pieces that fit the model; none if there is nothing in it."""
        text = normalise(text)
        return split_long(text, self.fits) if text else []

    def fits(self, text: str) -> bool:
        return len(self.tokenizer.encode_src([text])[0]) <= self.max_pieces

    def prefixes(self, prefix: str, parts: list[list[str]]) -> list[list[int]] | None:
        if not prefix:
            return None
        ids = self.tokenizer.encode_tgt([prefix])[0]
        return [ids if i == 0 else [] for group in parts for i in range(len(group))]

    def join(self, text: str, parts: list[str], found: list[list[Hypothesis]]) -> Translation:
        """The hypotheses of a text's parts as translations of the text."""
        if not found:
            return Translation(text, (Alternative("", 0.0, 0.0, (), ()),))
        ranks = range(min(map(len, found)))
        return Translation(text, tuple(self.alternative(parts, [best[rank] for best in found]) for rank in ranks))

    def alternative(self, parts: list[str], found: list[Hypothesis]) -> Alternative:
        # Normalised: the bytes a model may write can make a line break, or nothing that can be seen.
        texts = [normalise(self.tokenizer.decode_tgt(one.ids)) for one in found]
        return Alternative(
            join_sentences(texts, self.tgt_lang),
            sum(one.score for one in found) / len(found),
            sum(one.log_prob for one in found),
            tuple(piece for one in found for piece in self.tokenizer.tgt.pieces(one.ids)),
            tuple(value for one in found for value in one.token_log_probs),
            tuple(zip(parts, texts, strict=True)),
        )

    def score(
        self, sources: Sequence[str], translations: Sequence[str], done: Callable[[int], None] = lambda count: None
    ) -> list[Alternative]:
        """What the model thinks of given translations: their log-probabilities, whole and by token."""
        if len(sources) != len(translations):
            raise ConfigError(f"{len(sources)} sources but {len(translations)} translations: one each is needed")
        src_ids, tgt_ids = self.tokenizer.encode_src(sources), self.tokenizer.encode_tgt(translations)
        self.check_lengths(src_ids, tgt_ids)
        longest = [max(len(s), len(t)) + 1 for s, t in zip(src_ids, tgt_ids, strict=True)]
        scored: dict[int, Alternative] = {}
        for batch in plan_batches(longest, self.decode.batch_tokens):
            src_BM = pad_sources([src_ids[i] for i in batch], self.device)
            chosen = [tgt_ids[i] for i in batch]
            results = score_translations(self.model, src_BM, chosen, length_penalty=self.decode.length_penalty)
            for i, result in zip(batch, results, strict=True):
                scored[i] = dataclasses.replace(self.alternative([sources[i]], [result]), text=translations[i])
            done(len(batch))
        return [scored[i] for i in range(len(sources))]

    def trace(self, text: str, translation: str | None = None, taps: Sequence[str] = ("*",), **options: Any) -> Trace:
        """Every number on the way from `text` to its translation, or to the one that is given."""
        src_ids = self.tokenizer.encode_src([text])[0]
        self.check_lengths([src_ids], [])
        if translation is not None:
            tgt_ids = self.tokenizer.encode_tgt([translation])[0]
            self.check_lengths([], [tgt_ids])
        elif src_ids:
            found = search(self.searcher, [src_ids], self.how(options), self.device)[0][0]
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
        if not any(path.endswith(".cross.weights") for path in tap_paths(self.model)):
            raise ConfigError(
                "this model has no attention (model.attention = 'none'), so it cannot say which word goes with which"
            )
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

    def check_lengths(self, src_ids: Sequence[Sequence[int]], tgt_ids: Sequence[Sequence[int]]) -> None:
        """Scoring and tracing take a sentence whole, so it must be one that the model could have."""
        for sentences in (src_ids, tgt_ids):
            for number, ids in enumerate(sentences, start=1):
                if len(ids) > self.max_whole:
                    raise ConfigError(
                        f"sentence {number} has {len(ids):,} pieces, too many to look at whole; "
                        f"the limit is {self.max_whole:,}"
                    )


def count_texts(parts: list[list[str]], done: Callable[[int], None]) -> Callable[[Sequence[int]], None]:
    """Hears which parts are finished, and tells `done` how many texts are."""
    owner = [text for text, group in enumerate(parts) for _ in group]
    waiting = [len(group) for group in parts]
    done(waiting.count(0))

    def hear(finished: Sequence[int]) -> None:
        for part in finished:
            waiting[owner[part]] -= 1
        done(len({owner[part] for part in finished if not waiting[owner[part]]}))

    return hear


def load_model(folder: Path, config: settings.FamilyConfig) -> TranslationModel:
    """The model with its weights, ready for use."""
    model = build_model(config, initialise=False)
    weights = {name: torch.from_numpy(array) for name, array in read_weights(folder).items()}
    expected = {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
    if expected != {name: tuple(weight.shape) for name, weight in weights.items()}:
        raise ModelFolderError(f"{folder}: the weights do not fit the sizes in config.json")
    for name, parameter in model.named_parameters():
        parameter.data = weights[name]
    return model.eval().requires_grad_(False)
