"""A passage: a sentence, a translation of it, and the interventions in effect.

A traced passage has one teacher-forced pass over it, with every tap recorded; its methods answer every question about
the numbers inside.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import torch

from regard.config import DecodeConfig
from regard.decode.engine import Engine
from regard.decode.protocols import SearchModel
from regard.errors import ConfigError
from regard.inspect.answers import (
    AttentionSummary,
    Block,
    ChosenPiece,
    LensLayer,
    LikelyPiece,
    Next,
    Piece,
    PredictedPiece,
    TensorHeader,
    TraceHeader,
)
from regard.inspect.blocks import count_layers, most_active, stages
from regard.inspect.heads import head_figures
from regard.inspect.interventions import Intervention
from regard.inspect.model_summary import model_settings
from regard.inspect.next_token import Candidate, Prediction, logit_lens, next_token
from regard.inspect.patching import intervened
from regard.inspect.trace import Trace, trace_translation
from regard.inspect.wire import pack
from regard.models.translation_model import TranslationModel
from regard.text.normalise import normalise
from regard.tokenizers.pair import TokenizerPair
from regard.tokenizers.sentencepiece import SentencePieceModel
from regard.tokenizers.special_ids import EOS

HEAD_FIRST = ("q", "k", "v", "scores", "weights", "head_out")  # taps whose first axis is the head
LENS_TOKENS = 5
UNITS = 12


class ExplorableTranslator(Protocol):
    """What the explorer needs of a translator."""

    folder: Path
    src_lang: str
    tgt_lang: str
    decode: DecodeConfig
    tasks: tuple[str, ...]
    tokenizer: TokenizerPair
    max_sentence_tokens: int

    @property
    def model(self) -> TranslationModel: ...

    @property
    def device(self) -> torch.device: ...

    @property
    def searcher(self) -> Engine | SearchModel[Any]: ...

    def decode_config(self, options: dict[str, Any]) -> DecodeConfig: ...

    def encode_src(self, texts: Sequence[str]) -> list[list[int]]: ...


@dataclass(frozen=True)
class Passage:
    """A sentence and a translation of it, both as ids without the end token."""

    text: str
    src_ids: tuple[int, ...]
    tgt_ids: tuple[int, ...]
    interventions: tuple[Intervention, ...] = ()

    def digest(self, model: str) -> str:
        """An id that is equal for equal passages through the same model."""
        interventions = [asdict(one) for one in self.interventions]
        content = [model, self.text, self.src_ids, self.tgt_ids, interventions]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:24]


def describe_pieces(vocabulary: SentencePieceModel, ids: Sequence[int]) -> tuple[Piece, ...]:
    return tuple(Piece(i, piece) for i, piece in zip(ids, vocabulary.pieces(ids), strict=True))


@dataclass(frozen=True)
class TracedPassage:
    translator: ExplorableTranslator
    passage: Passage
    trace: Trace

    @classmethod
    def run(cls, translator: ExplorableTranslator, passage: Passage) -> TracedPassage:
        """Pass the passage through the model, with its interventions in effect."""
        tokenizer, model = translator.tokenizer, translator.model
        pieces = tokenizer.src.pieces(passage.src_ids), tokenizer.tgt.pieces(passage.tgt_ids)
        with intervened(model, passage.interventions):
            trace = trace_translation(model, passage.src_ids, passage.tgt_ids, *pieces)
        return cls(translator, passage, trace)

    @property
    def size(self) -> int:
        """Bytes of the recorded values."""
        return sum(value.nbytes for value in self.trace.values.values())

    def overview(self, name: str) -> bytes:
        """The pieces, every attention map in 8 bits, and the shapes of all taps."""
        tokenizer, passage, values = self.translator.tokenizer, self.passage, self.trace.values
        tgt = describe_pieces(tokenizer.tgt, [*passage.tgt_ids, EOS])
        header = TraceHeader(
            trace=name,
            kernel=self.trace.kernel,
            text=passage.text,
            translation=normalise(tokenizer.decode_tgt(passage.tgt_ids)),
            src=describe_pieces(tokenizer.src, [*passage.src_ids, EOS]),
            tgt=tuple(
                LikelyPiece(one.id, one.piece, probability)
                for one, probability in zip(tgt, self.trace.probabilities.tolist(), strict=True)
            ),
            interventions=passage.interventions,
            taps={path: value.shape for path, value in values.items()},
        )
        maps = {path: value for path, value in values.items() if path.endswith("weights")}
        return pack(header, {path: np.rint(value * 255).astype(np.uint8) for path, value in maps.items()})

    def tensor(self, path: str, head: int | None = None) -> bytes:
        """The exact value of one tap."""
        if path not in self.trace.values:
            raise ConfigError(f"there is no tap {path!r}; `taps` in the trace lists them all")
        value = self.trace[path]
        if head is not None:
            if path.rpartition(".")[2] not in HEAD_FIRST:
                raise ConfigError(f"{path} is not split into heads; request it without `head`")
            if not 0 <= head < len(value):
                raise ConfigError(f"{path} has no head {head}: it has {len(value)}, numbered from 0")
            value = value[head]
        return pack(TensorHeader(path, head), {path: value.astype(np.float32)})

    def next(self, step: int, k: int) -> Next:
        """The prediction of the token at `step`, and that of each decoder layer by the logit lens."""
        wanted = [*self.passage.tgt_ids, EOS]
        if not 0 <= step < len(wanted):
            raise ConfigError(f"there is no step {step}: the translation has {len(wanted)}, numbered from 0")
        predicted = next_token(self.trace, step, wanted[step], k)
        lens = logit_lens(self.translator.model, self.trace, step, wanted[step], LENS_TOKENS)
        [chosen] = self.predicted_pieces([predicted.chosen])
        return Next(
            step,
            self.predicted_pieces(predicted.top),
            predicted.entropy,
            ChosenPiece(**vars(chosen), rank=predicted.rank),
            tuple(self.lens_layer(layer, one) for layer, one in enumerate(lens)),
        )

    def lens_layer(self, layer: int, predicted: Prediction) -> LensLayer:
        top = self.predicted_pieces(predicted.top)
        return LensLayer(layer, top, predicted.entropy, predicted.rank, predicted.chosen.probability)

    def predicted_pieces(self, candidates: Sequence[Candidate]) -> tuple[PredictedPiece, ...]:
        pieces = self.translator.tokenizer.tgt.pieces([one.id for one in candidates])
        return tuple(
            PredictedPiece(one.id, piece, one.probability, one.logit)
            for one, piece in zip(candidates, pieces, strict=True)
        )

    def block(self, side: Literal["encoder", "decoder"], layer: int, position: int) -> Block:
        """The residual stream of one token through the encoder or the decoder, and the most active units of a layer."""
        trace = self.trace
        n_layers = count_layers(trace, side)
        if not n_layers:
            raise ConfigError("this model has no residual stream: it is not a Transformer")
        n_positions = len(trace.src_tokens if side == "encoder" else trace.tgt_tokens)
        for name, value, count in (("layer", layer, n_layers), ("position", position, n_positions)):
            if not 0 <= value < count:
                raise ConfigError(f"there is no {name} {value} in the {side}: it has {count}, numbered from 0")
        embedded = trace["src_embedded" if side == "encoder" else "tgt_embedded"][position]
        pre = model_settings(self.translator.model.config)["norm_order"] == "pre"
        return Block(
            side,
            layer,
            position,
            float(np.linalg.norm(embedded)),
            tuple(stages(trace, side, position, pre)),
            tuple(most_active(trace, side, layer, position, UNITS)),
        )

    def summary(self) -> AttentionSummary:
        """Statistics of every head, to sort them by."""
        paths = [path for path in self.trace.values if path.endswith(".weights")]
        cross = [path for path in paths if path.endswith(".cross.weights")]
        mean_LM = self.trace.cross_attention() if cross else None
        return AttentionSummary(
            tuple(
                figures
                for path in paths
                for figures in head_figures(
                    self.trace[path], path.removesuffix(".weights"), mean_LM if path in cross else None
                )
            )
        )
