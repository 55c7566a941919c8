"""`TextEncoder`: masked-token prediction, classification, tagging and embeddings with a BERT.

Shapes: L length, D model, N masks, K candidates, V vocabulary, C classes or tags.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from regard.config import BertConfig, FamilyConfig, Precision, wrong_family
from regard.decode.bert_heads import EngineEncoder
from regard.decode.numpy_transformer import log_softmax
from regard.errors import ConfigError
from regard.extras import require
from regard.model_folder.folder import read_description
from regard.model_folder.registry import find_folder
from regard.pipelines.classification import Classification
from regard.pipelines.text_backend import TextBackend
from regard.tokenizers.read import text_tokenizer
from regard.tokenizers.special_ids import MASK_PIECE

if TYPE_CHECKING:
    from regard.inspect.text_trace import TextTrace
    from regard.models.bert import Bert
    from regard.pipelines.live_text import LiveEncoder

Array = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Candidate:
    """A token predicted for a mask."""

    piece: str  # as in the vocabulary, with its "##" or "▁"
    text: str  # without them
    probability: float


@dataclass(frozen=True)
class MaskPrediction:
    """The prediction for one [MASK] of a text."""

    position: int  # among the tokens of the text, from 0
    candidates: tuple[Candidate, ...]  # most probable first


@dataclass(frozen=True)
class FilledText:
    """A text with predictions for its masks. `text` has the most probable token for each."""

    source: str
    masks: tuple[MaskPrediction, ...]  # one for each [MASK], in order

    @property
    def text(self) -> str:
        """The text with the most probable token for each mask; each is chosen independently of the others."""
        first, *parts = self.source.split(MASK_PIECE)
        filled = zip(self.masks, parts, strict=True)
        return first + "".join(mask.candidates[0].text + part for mask, part in filled)


@dataclass(frozen=True)
class Tag:
    """A token and its most probable label."""

    piece: str
    label: str
    probability: float


class TextEncoder:
    """Predict masked tokens, classify, tag and embed texts with a BERT.

    Parameters
    ----------
    folder : str or Path
        A model folder, or the name of an installed model.
    precision : {"float32", "bfloat16", "int8", "auto"}
        Precision of the engine. "float32" is exact, "auto" the fastest on this machine.

    Examples
    --------
    >>> from regard import TextEncoder
    >>> encoder = TextEncoder("bert")  # regard import bert-base-chinese -o bert
    >>> encoder.fill("今天天气很[MASK]").text
    >>> encoder.embed(["今天天气很好", "明天下雨"]).shape
    (2, 768)
    """

    def __init__(self, folder: str | Path, precision: Precision = "float32") -> None:
        folder = find_folder(folder)
        description = read_description(folder)
        if not isinstance(description.model, BertConfig):
            raise wrong_family(description.model, "encode texts")
        self.folder, self.config = folder, description.model
        self.backend: TextBackend[Bert] = TextBackend(folder, description, precision, read_live)
        self.tokenizer = text_tokenizer(folder, description)
        self.batch_tokens = description.decode.batch_tokens
        self.labels = description.labels or tuple(f"LABEL_{number}" for number in range(self.config.n_labels))

    @property
    def model(self) -> Bert:
        """The model in PyTorch."""
        return self.backend.model

    @property
    def encoder(self) -> EngineEncoder | LiveEncoder:
        """What computes: the engine, or the model in PyTorch."""
        engine = self.backend.usable_engine
        if engine is not None:
            return EngineEncoder(engine, self.config, self.backend.weights)
        from regard.pipelines.live_text import LiveEncoder

        return LiveEncoder(self.model, self.batch_tokens)

    def fill(self, text: str, n: int = 5) -> FilledText:
        """Predict the `n` most probable tokens for each [MASK] in the text."""
        if n < 1:
            raise ConfigError(f"n = {n} is too small; the minimum is 1")
        self.check_mask()
        ids, positions = self.find_masks(text)
        encoder = self.encoder
        [hidden_LD] = encoder.encode([self.wrap(ids)])
        probability_NV = softmax(encoder.masked_logits(hidden_LD[[position + 1 for position in positions]]))
        possible_NV = probability_NV[:, : self.tokenizer.size].copy()
        no_text = {*self.tokenizer.suppressed_ids, self.tokenizer.end}
        possible_NV[:, list(no_text)] = -1.0
        count = min(n, self.tokenizer.size - len(no_text))
        token_NK = np.argsort(-possible_NV, axis=1, kind="stable")[:, :count]
        best_NK = np.take_along_axis(possible_NV, token_NK, axis=1)
        masks = []
        for position, values, tokens in zip(positions, best_NK.tolist(), token_NK.tolist(), strict=True):
            texts = [self.tokenizer.token_bytes(token).decode("utf-8", "replace").strip() for token in tokens]
            masks.append(MaskPrediction(position, tuple(map(Candidate, self.tokenizer.pieces(tokens), texts, values))))
        return FilledText(text, tuple(masks))

    def check_mask(self) -> None:
        if self.tokenizer.mask is None:
            raise ConfigError(
                f"the tokenizer of {self.folder} has no {MASK_PIECE} token, so the model cannot predict masked tokens"
            )

    def find_masks(self, text: str) -> tuple[list[int], list[int]]:
        """The token ids of a text, and the position of each [MASK]; raises if there is none."""
        [ids] = self.tokenizer.encode([text])
        positions = [position for position, token in enumerate(ids) if token == self.tokenizer.mask]
        if not positions:
            raise ConfigError(f"there is nothing to fill: write {MASK_PIECE} where a token is to be predicted")
        self.check_length(ids)
        return ids, positions

    def classify(self, texts: Sequence[str]) -> list[Classification]:
        """Classify each text; one that is too long for the model is truncated."""
        encoder = self.encoder
        logits = [encoder.class_logits(hidden_LD) for hidden_LD in encoder.encode(self.truncated(texts))]
        return [Classification.from_probabilities(self.labels, softmax(logits_C)) for logits_C in logits]

    def tag(self, text: str) -> list[Tag]:
        """Label each token of the text."""
        [ids] = self.tokenizer.encode([text])
        self.check_length(ids)
        encoder = self.encoder
        [hidden_LD] = encoder.encode([self.wrap(ids)])
        probability_LC = softmax(encoder.tag_logits(hidden_LD))[1:-1]
        columns = zip(
            self.tokenizer.pieces(ids),
            probability_LC.argmax(axis=-1).tolist(),
            probability_LC.max(axis=-1).tolist(),
            strict=True,
        )
        return [Tag(piece, self.labels[i], value) for piece, i, value in columns]

    def embed(self, texts: Sequence[str]) -> Array:
        """Sentence embeddings of length 1, one row per text; the dot product of two is their cosine similarity."""
        if not texts:
            return np.empty((0, self.config.d_model), dtype=np.float32)
        means = [hidden_LD.mean(axis=0) for hidden_LD in self.encoder.encode(self.truncated(texts))]
        mean_BD = np.stack(means)
        embedding_BD: Array = mean_BD / np.maximum(np.linalg.norm(mean_BD, axis=1, keepdims=True), np.float32(1e-12))
        return embedding_BD

    def similarity(self, text: str, other: str) -> float:
        """The cosine similarity of two texts: 1 for equal ones."""
        one, two = self.embed([text, other])
        return float(one @ two)

    def trace(self, text: str, taps: Sequence[str] = ("*",)) -> TextTrace:
        """All values that the model computes for `text`, at the chosen taps."""
        [ids] = self.tokenizer.encode([text])
        self.check_length(ids)
        require("torch", "a trace")
        from regard.inspect.text_trace import trace_text

        whole = self.wrap(ids)
        return trace_text(self.model, self.model.forward, whole, self.tokenizer.pieces(whole), taps)

    def truncated(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of texts, cut to the model's limit, with their begin and end tokens."""
        limit = self.config.max_positions - 2
        return [self.wrap(ids[:limit]) for ids in self.tokenizer.encode(texts)]

    def wrap(self, ids: Sequence[int]) -> list[int]:
        return [self.tokenizer.begin, *ids, self.tokenizer.end]

    def check_length(self, ids: Sequence[int]) -> None:
        limit = self.config.max_positions - 2  # without the begin and end tokens
        if len(ids) > limit:
            raise ConfigError(f"this text has {len(ids):,} tokens; the model takes at most {limit:,}")


def softmax(logits: Array) -> Array:
    probabilities: Array = np.exp(log_softmax(logits))
    return probabilities


def read_live(folder: Path, config: FamilyConfig) -> Bert:
    from regard.pipelines.live_text import read_encoder

    return read_encoder(folder, config)
