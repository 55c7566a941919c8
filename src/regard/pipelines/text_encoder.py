"""The façade of a BERT: a model folder in; missing words, classes, tags and likenesses out.

from regard import TextEncoder
read = TextEncoder("bert-base-chinese-imported")
read.fill("今天天气很[MASK]").text
"""

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
from regard.tokenizers.protocol import read_tokenizer
from regard.tokenizers.special_ids import MASK_PIECE


@dataclass(frozen=True)
class Candidate:
    """A piece that may stand in a blank; "##" or "▁" in it are the vocabulary's marks of where words are joined."""

    piece: str
    text: str  # without such marks
    probability: float


@dataclass(frozen=True)
class Blank:
    """One [MASK] of a text."""

    place: int  # among the tokens of the text, from 0
    candidates: tuple[Candidate, ...]  # likeliest first


@dataclass(frozen=True)
class Filling:
    source: str
    blanks: tuple[Blank, ...]  # one for each [MASK], in order

    @property
    def text(self) -> str:
        """The text with the likeliest piece in each blank, each chosen for itself."""
        first, *parts = self.source.split(MASK_PIECE)
        filled = zip(self.blanks, parts, strict=True)
        return first + "".join(blank.candidates[0].text + part for blank, part in filled)


@dataclass(frozen=True)
class Opinion:
    """What a text or a picture is, as far as a model can tell: each label with its probability, likeliest first."""

    labels: tuple[tuple[str, float], ...]

    @classmethod
    def of(cls, labels: Sequence[str], probability_C: Tensor) -> Opinion:
        order = probability_C.argsort(descending=True, stable=True).tolist()
        return cls(tuple((labels[number], float(probability_C[number])) for number in order))

    @property
    def label(self) -> str:
        return self.labels[0][0]

    @property
    def probability(self) -> float:
        return self.labels[0][1]


@dataclass(frozen=True)
class Tag:
    piece: str
    label: str
    probability: float


class TextEncoder:
    """A trained BERT, ready to read. Nothing here needs knowledge of torch."""

    def __init__(self, folder: str | Path) -> None:
        folder = find_folder(folder)
        description = read_description(folder)
        self.folder = folder
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.model = read_model(folder, description.model, Bert, "read").to(self.device)
        self.lexicon = read_tokenizer(description.tokenizer, description.lowercase)
        self.batch_tokens = description.decode.batch_tokens
        n_labels = self.model.config.n_labels
        self.labels = description.labels or tuple(f"LABEL_{number}" for number in range(n_labels))

    @torch.inference_mode()
    def fill(self, text: str, n: int = 5) -> Filling:
        """For each [MASK] in the text, the `n` likeliest pieces with the model's own probabilities."""
        if n < 1:
            raise ConfigError(f"n = {n} is too small; the least is 1")
        self.check_mask()
        ids, places = self.find_blanks(text)
        ids_1L = self.rows([ids])
        hidden_ND = self.model(ids_1L)[0, [place + 1 for place in places]]
        probabilities_NV = torch.softmax(self.model.masked_logits(hidden_ND).float(), dim=-1)
        possible_NV = probabilities_NV[:, : self.lexicon.size].clone()
        no_text = {*self.lexicon.suppressed_ids, self.lexicon.end}
        possible_NV[:, list(no_text)] = -1.0
        best_NK = possible_NV.topk(min(n, self.lexicon.size - len(no_text)), dim=1)
        blanks = []
        for place, values, tokens in zip(places, best_NK.values.tolist(), best_NK.indices.tolist(), strict=True):
            texts = [self.lexicon.token_bytes(token).decode("utf-8", "replace").strip() for token in tokens]
            blanks.append(Blank(place, tuple(map(Candidate, self.lexicon.pieces(tokens), texts, values))))
        return Filling(text, tuple(blanks))

    def check_mask(self) -> None:
        if self.lexicon.mask is None:
            raise ConfigError(f"the tokenizer of {self.folder} has no {MASK_PIECE}, so its model cannot fill blanks")

    def find_blanks(self, text: str) -> tuple[list[int], list[int]]:
        """The ids of a text, and where among them each [MASK] is; an error where there is none."""
        [ids] = self.lexicon.encode([text])
        places = [place for place, token in enumerate(ids) if token == self.lexicon.mask]
        if not places:
            raise ConfigError(f"there is nothing to fill: write {MASK_PIECE} where a word is missing")
        self.check_length(ids)
        return ids, places

    @torch.inference_mode()
    def classify(self, texts: Sequence[str]) -> list[Opinion]:
        """What each text is; one that is too long is judged by its beginning."""
        found = self.each(texts, lambda hidden_BLD, ids_BL: self.model.class_logits(hidden_BLD))
        return [Opinion.of(self.labels, torch.softmax(logits_C.float(), dim=-1)) for logits_C in found]

    @torch.inference_mode()
    def tag(self, text: str) -> list[Tag]:
        """What each piece of the text is."""
        [ids] = self.lexicon.encode([text])
        self.check_length(ids)
        probability_LC = torch.softmax(self.model.tag_logits(self.model(self.rows([ids]))).float(), dim=-1)[0, 1:-1]
        best, label = probability_LC.max(dim=-1)
        columns = zip(self.lexicon.pieces(ids), label.tolist(), best.tolist(), strict=True)
        return [Tag(piece, self.labels[i], value) for piece, i, value in columns]

    @torch.inference_mode()
    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """A vector of length 1 for each text: the product of two is the cosine of the angle between them."""
        found = self.each(texts, self.model.sentence)
        if not found:
            return np.empty((0, self.model.config.d_model), dtype=np.float32)
        return np.asarray(torch.nn.functional.normalize(torch.stack(found).float(), dim=-1).cpu())

    def similarity(self, text: str, other: str) -> float:
        """The cosine between two texts: 1 for the same."""
        one, two = self.embed([text, other])
        return float(one @ two)

    def trace(self, text: str, taps: Sequence[str] = ("*",)) -> TextTrace:
        """Every number on the way through `text`."""
        [ids] = self.lexicon.encode([text])
        self.check_length(ids)
        whole = [self.lexicon.begin, *ids, self.lexicon.end]
        return trace_text(self.model, self.model.forward, whole, self.lexicon.pieces(whole), taps)

    def each(self, texts: Sequence[str], head: Callable[[Tensor, Tensor], Tensor]) -> list[Tensor]:
        """What `head` makes of hidden_BLD and ids_BL, text by text."""
        most = self.model.longest_text - 2
        encoded = [ids[:most] for ids in self.lexicon.encode(texts)]
        found: dict[int, Tensor] = {}
        for batch in plan_batches([len(ids) + 2 for ids in encoded], self.batch_tokens):
            ids_BL = self.rows([encoded[i] for i in batch])
            found.update(zip(batch, head(self.model(ids_BL), ids_BL), strict=True))
        return [found[i] for i in range(len(texts))]

    def rows(self, texts: Sequence[Sequence[int]]) -> Tensor:
        """ids_BL: each text between its begin and its end, padded on the right."""
        longest = max(map(len, texts))
        rows = [
            [self.lexicon.begin, *ids, self.lexicon.end, *[self.lexicon.pad] * (longest - len(ids))] for ids in texts
        ]
        return torch.tensor(rows, device=self.device)

    def check_length(self, ids: Sequence[int]) -> None:
        most = self.model.longest_text - 2
        if len(ids) > most:
            raise ConfigError(f"this text has {len(ids):,} tokens; the model reads at most {most:,} at once")
