"""Language models and encoders on the page: one text, its tokens, every attention map, and what the model predicts.

A language model (GPT, DeepSeek) predicts the token after each position; an encoder (BERT) the token under each [MASK].
Mixtures of experts also show how probable the router finds each expert for each token.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from regard.config import BertConfig, LanguageConfig
from regard.errors import ConfigError
from regard.inspect.model_summary import name_of
from regard.inspect.text_trace import TextTrace
from regard.inspect.wire import pack
from regard.model_folder.folder import read_summary
from regard.pipelines.text_encoder import TextEncoder
from regard.pipelines.text_generator import TextGenerator
from regard.serve.http_error import HttpError
from regard.serve.responses import TextCandidate, TextModel, TextPrediction, TextReading
from regard.tokenizers.special_ids import MASK_PIECE

CANDIDATES = 8
MAX_TOKENS = 256
ATTENTION, ROUTER = ".weights", ".router"


def is_text_model(folder: Path) -> bool:
    return isinstance(read_summary(folder)[0].model, LanguageConfig | BertConfig)


@dataclass
class LoadedText:
    id: str
    name: str
    pipeline: TextGenerator | TextEncoder
    lock: threading.Lock = field(default_factory=threading.Lock)

    def describe(self) -> TextModel:
        config = self.pipeline.config
        parameters = sum(parameter.numel() for parameter in self.pipeline.model.parameters())
        generates = isinstance(self.pipeline, TextGenerator)
        return TextModel(self.id, self.name, config.family, generates, parameters, config.n_layers, config.n_heads)

    def taps(self) -> list[str]:
        """Those that the page needs and the model has."""
        names = [name for name, _ in self.pipeline.model.named_modules()]
        return [name for name in names if name == "logits" or name.endswith((ATTENTION, ROUTER))]

    def read(self, text: str) -> bytes:
        """The tokens and predictions, with the attention maps and the routers' probabilities in 8 bits."""
        with self.lock:
            [ids] = self.pipeline.tokenizer.encode([text])
            if len(ids) > MAX_TOKENS:
                raise ConfigError(f"the text has {len(ids)} tokens; the explorer accepts up to {MAX_TOKENS}")
            traced = self.pipeline.trace(text, self.taps())
            if isinstance(self.pipeline, TextGenerator):
                predictions = next_tokens(self.pipeline, traced)
            else:
                predictions = masked_tokens(self.pipeline, text)
        maps = {path: value for path, value in traced.values.items() if is_drawn(path, value, len(traced.ids))}
        header = TextReading(text, traced.tokens, predictions)
        return pack(header, {path: np.rint(value * 255).astype(np.uint8) for path, value in maps.items()})


def is_drawn(path: str, value: np.ndarray, length: int) -> bool:
    """A square map of each head, or a row of experts for each token; Linformer's maps, for one, are neither."""
    if path.endswith(ATTENTION):
        return value.ndim == 3 and value.shape[1:] == (length, length)
    return path.endswith(ROUTER) and value.ndim == 2


def next_tokens(model: TextGenerator, traced: TextTrace) -> tuple[TextPrediction, ...]:
    """What comes after each token, most probable first."""
    logits_LV = traced["logits"].astype(np.float64)
    odds_LV = np.exp(logits_LV - logits_LV.max(axis=-1, keepdims=True))
    probability_LV = odds_LV / odds_LV.sum(axis=-1, keepdims=True)
    best_LK = np.argsort(-probability_LV, axis=-1, kind="stable")[:, :CANDIDATES]
    return tuple(
        TextPrediction(
            position,
            tuple(
                TextCandidate(piece, model.tokenizer.token_bytes(token).decode("utf-8", "replace"), probability)
                for token, piece, probability in zip(
                    tokens, model.tokenizer.pieces(tokens), probability_LV[position, tokens].tolist(), strict=True
                )
            ),
        )
        for position, tokens in enumerate(best_LK.tolist())
    )


def masked_tokens(model: TextEncoder, text: str) -> tuple[TextPrediction, ...]:
    """What is under each mask, most probable first."""
    if MASK_PIECE not in text or "masked" not in model.config.heads:
        return ()
    return tuple(
        TextPrediction(
            mask.position + 1,  # the first token is that of the beginning
            tuple(TextCandidate(one.piece, one.text, one.probability) for one in mask.candidates),
        )
        for mask in model.fill(text, CANDIDATES).masks
    )


class LoadedTexts:
    """By their ids, which those of translation models cannot be."""

    def __init__(self, folders: Sequence[Path] = ()) -> None:
        self.by_id: dict[str, LoadedText] = {}
        for number, folder in enumerate(folders):
            encoder = isinstance(read_summary(folder)[0].model, BertConfig)
            pipeline = TextEncoder(folder) if encoder else TextGenerator(folder)
            self.by_id[f"text-{number}"] = LoadedText(f"text-{number}", name_of(pipeline.folder), pipeline)

    def get(self, id: str) -> LoadedText:
        if id not in self.by_id:
            raise HttpError(404, f"there is no text model {id!r}", "the models are those of /api/texts")
        return self.by_id[id]
