"""Everything a person can ask of a model and a sentence, as plain values: what the explorer's page shows.

A search runs on the fast path. A *passage* is a sentence, a translation of it and the interventions in force: one
teacher-forced pass over it, with every tap heard, gives the insides, and everything else is read off those. The
answers are JSON and binary bodies (`wire`), so that a server, a file and a notebook can show the same page.

Shapes: L target length, M source length, H heads.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from regard.config import DecodeConfig, to_dict
from regard.decode.beam import BeamStep
from regard.decode.constraints import check_ids
from regard.decode.hypotheses import Hypothesis
from regard.decode.protocols import SearchModel
from regard.decode.search import search
from regard.errors import ConfigError
from regard.inspect.beam_tree import BeamTree
from regard.inspect.blocks import count_layers, most_active, stages
from regard.inspect.heads import head_figures
from regard.inspect.interventions import (
    Intervention,
    check_cells,
    check_places,
    check_search,
    intervened,
    without_mask,
)
from regard.inspect.model_summary import card_of
from regard.inspect.next_token import Guess, Opinion, logit_lens, next_token
from regard.inspect.parameter import pack_parameter
from regard.inspect.support import SUPPORT
from regard.inspect.trace import Trace, trace_translation
from regard.inspect.wire import pack
from regard.inspect.writing import Writing
from regard.models.translation_model import TranslationModel
from regard.text.normalise import normalise
from regard.tokenizers.pair import TokenizerPair
from regard.tokenizers.segmentation import segment
from regard.tokenizers.sentencepiece import SentencePieceModel
from regard.tokenizers.special_ids import EOS

HEAD_FIRST = ("q", "k", "v", "scores", "weights", "head_out")
LENS_GUESSES = 5
UNITS = 12


@dataclass(frozen=True)
class Limits:
    """What one question may ask for: attention is quadratic, and somebody waits for the answer."""

    characters: int = 2000
    pieces: int = 512
    beam: int = 16
    n_best: int = 16


class Explored(Protocol):
    """What is needed of a translator."""

    folder: Path
    src_lang: str
    tgt_lang: str
    decode: DecodeConfig
    tokenizer: TokenizerPair
    model: TranslationModel
    device: torch.device
    max_sentence_tokens: int

    @property
    def searcher(self) -> SearchModel[Any]: ...

    def decode_config(self, options: dict[str, Any]) -> DecodeConfig: ...

    def encode_src(self, texts: Sequence[str]) -> list[list[int]]: ...


@dataclass(frozen=True)
class Question:
    """A text to be translated, and how."""

    text: str
    options: Mapping[str, Any]
    prefix_ids: tuple[int, ...] = ()
    interventions: tuple[Intervention, ...] = ()


@dataclass(frozen=True)
class Passage:
    """A sentence and a translation of it, both in ids without the end of the sentence."""

    text: str
    src_ids: tuple[int, ...]
    tgt_ids: tuple[int, ...]
    interventions: tuple[Intervention, ...] = ()

    def digest(self, model: str) -> str:
        """The same for the same passage through the same model."""
        content = [model, self.text, self.src_ids, self.tgt_ids, [asdict(one) for one in self.interventions]]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:24]


class Explorer:
    """Questions to one model. Not for two threads at once: interventions change the model while they last."""

    def __init__(self, translator: Explored, limits: Limits = Limits()) -> None:  # noqa: B008
        self.translator = translator
        self.limits = limits

    @property
    def src(self) -> SentencePieceModel:
        return self.translator.tokenizer.src

    @property
    def tgt(self) -> SentencePieceModel:
        return self.translator.tokenizer.tgt

    @property
    def config(self) -> dict[str, Any]:
        """The settings of the model, of whatever family; and what a family leaves no choice in, but others do."""
        config = to_dict(self.translator.model.config)
        fixed = {"position": "relative", "norm_order": "pre", "norm": "rmsnorm"} if config["family"] == "t5" else {}
        return {**fixed, **config}

    # -- text

    def check_text(self, text: str) -> str:
        if len(text) > self.limits.characters:
            raise ConfigError(
                f"the text has {len(text):,} characters; the explorer looks at up to {self.limits.characters:,} at once"
            )
        return normalise(text)

    def tokens(self, text: str, side: str) -> dict[str, Any]:
        """How a text is cut into pieces, and why so."""
        self.check_text(text)
        vocabulary = self.src if side == "src" else self.tgt
        return asdict(segment(vocabulary, text, self.translator.tokenizer.lowercase))

    def source_ids(self, text: str) -> tuple[int, ...]:
        [ids] = self.translator.encode_src([self.check_text(text)])
        self.check_length(ids, "the text")
        return tuple(ids)

    @property
    def most_pieces(self) -> int:
        return min(self.limits.pieces, self.translator.max_sentence_tokens)

    def check_length(self, ids: Sequence[int], what: str) -> None:
        most = self.most_pieces
        if len(ids) > most:
            raise ConfigError(f"{what} has {len(ids):,} pieces; the explorer looks at up to {most:,} at once")

    def target_ids(self, ids: Sequence[int], what: str) -> tuple[int, ...]:
        """Ids that came from outside, checked."""
        check_ids(ids, what)
        wrong = next((i for i in ids if not 0 <= i < self.tgt.size), None)
        if wrong is not None:
            raise ConfigError(f"{what} has the id {wrong}; the vocabulary's go from 0 to {self.tgt.size - 1}")
        self.check_length(ids, what)
        return tuple(ids)

    # -- search

    def how(self, question: Question, n_best: int) -> DecodeConfig:
        how = self.translator.decode_config(dict(question.options))
        for name, value, most in (("beam", how.beam, self.limits.beam), ("n_best", n_best, self.limits.n_best)):
            if not 1 <= value <= most:
                raise ConfigError(f"{name} = {value} is not possible here; it may be from 1 to {most}")
        return how

    def search(
        self,
        question: Question,
        how: DecodeConfig,
        n_best: int = 1,
        observe: Callable[[BeamStep], None] | None = None,
    ) -> list[Hypothesis]:
        src_ids = self.source_ids(question.text)
        prefix = self.target_ids(question.prefix_ids, "the forced beginning")
        check_cells(question.interventions, len(src_ids) + 1)
        if not src_ids:
            return [Hypothesis((), 0.0, 0.0, (), finished=False)]
        most = self.most_pieces - len(prefix)  # what is found can be traced
        if most < 1:
            raise ConfigError(f"the forced beginning leaves no room: it has {len(prefix)} pieces of {self.most_pieces}")
        if how.max_length_ratio * len(src_ids) + how.max_length_extra > most:
            how = replace(how, max_length_ratio=0.0, max_length_extra=most)
        if how.method == "beam":
            n_best = min(n_best, how.beam)  # a search finds no more, and asking for more must not change it
        with intervened(self.translator.model, without_mask(question.interventions)):
            [found] = search(
                self.translator.searcher,  # the model itself, while interventions are in force
                [src_ids],
                how,
                self.translator.device,
                n_best,
                [prefix],
                observe=observe,
            )
        return found

    def translate(
        self, question: Question, n_best: int = 1, tell: Callable[[dict[str, Any]], None] | None = None
    ) -> dict[str, Any]:
        """`tell` hears of a beam search while it writes: {"kept": how many tokens stand, "added": what follows}."""
        check_search(question.interventions)
        observe = None
        if tell is not None:
            observe = Writing(lambda kept, added: tell({"kept": kept, "added": self.likely(added)})).observe
        found = self.search(question, self.how(question, n_best), n_best, observe)
        src = self.named(self.src, self.source_ids(question.text))
        return {"source": question.text, "src": src, "alternatives": [self.alternative(one) for one in found]}

    def beam(self, question: Question, n_best: int | None = None) -> dict[str, Any]:
        """The tree of a beam search, with the translations it found."""
        check_search(question.interventions)
        how = self.how(question, n_best or 1)
        if how.method != "beam":
            raise ConfigError(f"the tree of hypotheses is that of a beam search, not of method = {how.method!r}")
        tree = BeamTree(how.beam, how.length_penalty, how.beam_rule)
        found = self.search(question, how, n_best or how.beam, tree.observe)
        ends = tree.finish(found)
        nodes = [asdict(node) for node in tree.nodes]
        for node, piece in zip(nodes, self.tgt.pieces([node["id"] for node in nodes]), strict=True):
            node["piece"] = piece
        alternatives = [{**self.alternative(one), "node": end} for one, end in zip(found, ends, strict=True)]
        return {
            "nodes": nodes,
            "left_out": tree.left_out,
            "beam": how.beam,
            "length_penalty": how.length_penalty,
            "beam_rule": how.beam_rule,
            "alternatives": alternatives,
        }

    def alternative(self, found: Hypothesis) -> dict[str, Any]:
        ids = [*found.ids, EOS] if found.finished else list(found.ids)
        return {
            "text": normalise(self.translator.tokenizer.decode_tgt(found.ids)),
            "score": found.score,
            "log_prob": found.log_prob,
            "finished": found.finished,
            "tokens": self.likely(list(zip(ids, found.token_log_probs, strict=True))),
        }

    def likely(self, tokens: Sequence[tuple[int, float]]) -> list[dict[str, Any]]:
        """Tokens of a translation with their log-probabilities."""
        named = self.named(self.tgt, [number for number, _ in tokens])
        return [{**one, "log_prob": log_prob} for one, (_, log_prob) in zip(named, tokens, strict=True)]

    def named(self, vocabulary: SentencePieceModel, ids: Sequence[int]) -> list[dict[str, Any]]:
        return [{"id": i, "piece": piece} for i, piece in zip(ids, vocabulary.pieces(ids), strict=True)]

    # -- trace

    def passage(self, question: Question, tgt_ids: Sequence[int] | None) -> Passage:
        """The passage over this translation, or over the one that a search finds."""
        SUPPORT.check(self.translator.model.config)
        check_places(self.translator.model, question.interventions)
        src_ids = self.source_ids(question.text)
        if tgt_ids is None:
            tgt_ids = self.search(question, self.how(question, 1))[0].ids
        else:
            whole = tgt_ids[:-1] if tgt_ids and tgt_ids[-1] == EOS else tgt_ids
            tgt_ids = self.target_ids(whole, "the translation")
        check_cells(question.interventions, len(src_ids) + 1, len(tgt_ids) + 1)
        return Passage(question.text, src_ids, tuple(tgt_ids), question.interventions)

    def trace(self, passage: Passage) -> Trace:
        pieces = self.src.pieces(passage.src_ids), self.tgt.pieces(passage.tgt_ids)
        with intervened(self.translator.model, passage.interventions):
            return trace_translation(self.translator.model, passage.src_ids, passage.tgt_ids, *pieces)

    def overview(self, passage: Passage, trace: Trace, name: str) -> bytes:
        """The pieces, every attention map in 8 bits, and the shapes of all the rest."""
        tgt = self.named(self.tgt, [*passage.tgt_ids, EOS])
        for token, probability in zip(tgt, trace.probabilities.tolist(), strict=True):
            token["probability"] = probability
        header = {
            "trace": name,
            "kernel": trace.kernel,
            "text": passage.text,
            "translation": normalise(self.translator.tokenizer.decode_tgt(passage.tgt_ids)),
            "src": self.named(self.src, [*passage.src_ids, EOS]),
            "tgt": tgt,
            "interventions": [asdict(one) for one in passage.interventions],
            "taps": {path: list(value.shape) for path, value in trace.values.items()},
        }
        maps = {path: value for path, value in trace.values.items() if path.endswith("weights")}
        return pack(header, {path: np.rint(value * 255).astype(np.uint8) for path, value in maps.items()})

    def tensor(self, trace: Trace, path: str, head: int | None) -> bytes:
        """One tap, exact."""
        if path not in trace.values:
            raise ConfigError(f"there is no tap {path!r}; the trace's own list has them all")
        value = trace[path]
        if head is not None:
            if path.rpartition(".")[2] not in HEAD_FIRST:
                raise ConfigError(f"{path} is not cut into heads; ask for it whole")
            if not 0 <= head < len(value):
                raise ConfigError(f"{path} has no head {head}: it has {len(value)}, numbered from 0")
            value = value[head]
        return pack({"path": path, "head": head}, {path: value.astype(np.float32)})

    def next(self, passage: Passage, trace: Trace, step: int, k: int) -> dict[str, Any]:
        """What the model holds of the token at `step`, and what each layer would have said."""
        wanted = [*passage.tgt_ids, EOS]
        if not 0 <= step < len(wanted):
            raise ConfigError(f"there is no step {step}: the translation has {len(wanted)}, numbered from 0")
        said = next_token(trace, step, wanted[step], k)
        lens = logit_lens(self.translator.model, trace, step, wanted[step], LENS_GUESSES)
        return {
            "step": step,
            "top": self.guesses(said.top),
            "entropy": said.entropy,
            "chosen": {**self.guesses([said.chosen])[0], "rank": said.rank},
            "lens": [self.layer_opinion(layer, one) for layer, one in enumerate(lens)],
        }

    def layer_opinion(self, layer: int, said: Opinion) -> dict[str, Any]:
        return {
            "layer": layer,
            "top": self.guesses(said.top),
            "entropy": said.entropy,
            "chosen_rank": said.rank,
            "chosen_probability": said.chosen.probability,
        }

    def guesses(self, guesses: Sequence[Guess]) -> list[dict[str, Any]]:
        pieces = self.tgt.pieces([guess.id for guess in guesses])
        return [{**asdict(guess), "piece": piece} for guess, piece in zip(guesses, pieces, strict=True)]

    def block(self, trace: Trace, side: str, layer: int, position: int) -> dict[str, Any]:
        """One token's way through the encoder or the decoder, and what excites it in one layer."""
        n_layers = count_layers(trace, side)
        if not n_layers:
            raise ConfigError("this model has no residual stream: it is not a Transformer")
        n_positions = len(trace.src_tokens if side == "encoder" else trace.tgt_tokens)
        for name, value, count in (("layer", layer, n_layers), ("position", position, n_positions)):
            if not 0 <= value < count:
                raise ConfigError(f"there is no {name} {value} in the {side}: it has {count}, numbered from 0")
        embedded = trace["src_embedded" if side == "encoder" else "tgt_embedded"][position]
        pre = self.config.get("norm_order") == "pre"
        return {
            "side": side,
            "layer": layer,
            "position": position,
            "embedded": float(np.linalg.norm(embedded)),
            "stages": [asdict(stage) for stage in stages(trace, side, position, pre)],
            "units": [asdict(unit) for unit in most_active(trace, side, layer, position, UNITS)],
        }

    def summary(self, trace: Trace) -> dict[str, Any]:
        """Figures of every head, to sort them by."""
        heads = []
        cross = any(path.endswith(".cross.weights") for path in trace.values)
        mean_LM = trace.cross_attention() if cross else None
        for path, weights_HLM in trace.values.items():
            if path.endswith(".weights"):
                across = mean_LM if path.endswith(".cross.weights") else None
                for head, figures in enumerate(head_figures(weights_HLM, across)):
                    heads.append({"where": path.removesuffix(".weights"), "head": head, **asdict(figures)})
        return {"heads": heads}

    # -- the model

    def parameter(self, name: str, rows: str | None = None, columns: str | None = None) -> bytes:
        return pack_parameter(self.translator.model, name, rows, columns)

    def card(self) -> dict[str, Any]:
        return card_of(self.translator, self.config)
