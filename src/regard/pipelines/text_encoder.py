"""`TextEncoder`: masked-token prediction, classification, tagging and embeddings with a BERT."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from regard.decode.batching import plan_batches
from regard.errors import ConfigError
from regard.inspect.text_trace import TextTrace, trace_text
from regard.model_folder.folder import read_description
from regard.model_folder.registry import find_folder
from regard.models.bert import Bert
from regard.models.load import read_model
from regard.pipelines.classification import Classification
from regard.tokenizers.read import text_tokenizer
from regard.tokenizers.special_ids import MASK_PIECE


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

    Examples
    --------
    >>> from regard import TextEncoder
    >>> encoder = TextEncoder("bert")  # regard import bert-base-chinese -o bert
    >>> encoder.fill("今天天气很[MASK]").text
    >>> encoder.embed(["今天天气很好", "明天下雨"]).shape
    (2, 768)
    """

    def __init__(self, folder: str | Path) -> None:
        folder = find_folder(folder)
        description = read_description(folder)
        self.folder = folder
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.model = read_model(folder, description.model, Bert, "encode texts").to(self.device)
        self.tokenizer = text_tokenizer(folder, description)
        self.batch_tokens = description.decode.batch_tokens
        n_labels = self.model.config.n_labels
        self.labels = description.labels or tuple(f"LABEL_{number}" for number in range(n_labels))

    @torch.inference_mode()
    def fill(self, text: str, n: int = 5) -> FilledText:
        """Predict the `n` most probable tokens for each [MASK] in the text."""
        if n < 1:
            raise ConfigError(f"n = {n} is too small; the minimum is 1")
        self.check_mask()
        ids, positions = self.find_masks(text)
        ids_1L = self.to_batch([ids])
        hidden_ND = self.model(ids_1L)[0, [position + 1 for position in positions]]
        probabilities_NV = torch.softmax(self.model.masked_logits(hidden_ND).float(), dim=-1)
        possible_NV = probabilities_NV[:, : self.tokenizer.size].clone()
        no_text = {*self.tokenizer.suppressed_ids, self.tokenizer.end}
        possible_NV[:, list(no_text)] = -1.0
        best_NK = possible_NV.topk(min(n, self.tokenizer.size - len(no_text)), dim=1)
        masks = []
        for position, values, tokens in zip(positions, best_NK.values.tolist(), best_NK.indices.tolist(), strict=True):
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

    @torch.inference_mode()
    def classify(self, texts: Sequence[str]) -> list[Classification]:
        """Classify each text; one that is too long for the model is truncated."""
        found = self.run(texts, lambda hidden_BLD, ids_BL: self.model.class_logits(hidden_BLD))
        probabilities = [torch.softmax(logits_C.float(), dim=-1) for logits_C in found]
        return [Classification.from_probabilities(self.labels, probability_C) for probability_C in probabilities]

    @torch.inference_mode()
    def tag(self, text: str) -> list[Tag]:
        """Label each token of the text."""
        [ids] = self.tokenizer.encode([text])
        self.check_length(ids)
        probability_LC = torch.softmax(self.model.tag_logits(self.model(self.to_batch([ids]))).float(), dim=-1)[0, 1:-1]
        best, label = probability_LC.max(dim=-1)
        columns = zip(self.tokenizer.pieces(ids), label.tolist(), best.tolist(), strict=True)
        return [Tag(piece, self.labels[i], value) for piece, i, value in columns]

    @torch.inference_mode()
    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """Sentence embeddings of length 1, one row per text; the dot product of two is their cosine similarity."""
        found = self.run(texts, self.model.sentence)
        if not found:
            return np.empty((0, self.model.config.d_model), dtype=np.float32)
        return np.asarray(torch.nn.functional.normalize(torch.stack(found).float(), dim=-1).cpu())

    def similarity(self, text: str, other: str) -> float:
        """The cosine similarity of two texts: 1 for equal ones."""
        one, two = self.embed([text, other])
        return float(one @ two)

    def trace(self, text: str, taps: Sequence[str] = ("*",)) -> TextTrace:
        """All values that the model computes for `text`, at the chosen taps."""
        [ids] = self.tokenizer.encode([text])
        self.check_length(ids)
        whole = [self.tokenizer.begin, *ids, self.tokenizer.end]
        return trace_text(self.model, self.model.forward, whole, self.tokenizer.pieces(whole), taps)

    def run(self, texts: Sequence[str], head: Callable[[Tensor, Tensor], Tensor]) -> list[Tensor]:
        """Run the model and `head`, a function of hidden_BLD and ids_BL, in batches; one result per text."""
        limit = self.model.longest_text - 2  # without the begin and end tokens
        encoded = [ids[:limit] for ids in self.tokenizer.encode(texts)]
        found: dict[int, Tensor] = {}
        for batch in plan_batches([len(ids) + 2 for ids in encoded], self.batch_tokens):
            ids_BL = self.to_batch([encoded[i] for i in batch])
            found.update(zip(batch, head(self.model(ids_BL), ids_BL), strict=True))
        return [found[i] for i in range(len(texts))]

    def to_batch(self, texts: Sequence[Sequence[int]]) -> Tensor:
        """ids_BL: each text with its begin and end tokens, padded on the right."""
        longest = max(map(len, texts))
        rows = [
            [self.tokenizer.begin, *ids, self.tokenizer.end, *[self.tokenizer.pad] * (longest - len(ids))]
            for ids in texts
        ]
        return torch.tensor(rows, device=self.device)

    def check_length(self, ids: Sequence[int]) -> None:
        limit = self.model.longest_text - 2  # without the begin and end tokens
        if len(ids) > limit:
            raise ConfigError(f"this text has {len(ids):,} tokens; the model takes at most {limit:,}")
