"""What trainer and generation ask of a model that goes on with a text, of whatever family.

A base class and not a `Protocol`, as in translation.py. There is no padding to tell such a model of: each place looks
back only, so that what is put after a shorter text of a batch changes nothing of it.

Shapes: B batch, L length, D model, V vocabulary, R rows of texts being written.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from regard.core.attention.latent import LatentCache
from regard.core.cache import GrowingCache
from regard.core.embeddings import Embedding


class LanguageModel(nn.Module, ABC):
    """ids to logits of the token after each, whole texts at once or part by part."""

    # The activations' precision; None: the weights'. Training in bf16 sets it and keeps float32 weights.
    compute_dtype: torch.dtype | None
    # The projection on the vocabulary: the loss takes its matrix and never forms the logits.
    output: Embedding

    @property
    @abstractmethod
    def longest_text(self) -> int | None:
        """The most tokens that are seen at once; None: no limit."""

    @abstractmethod
    def hidden(self, ids_BL: Tensor) -> Tensor:
        """What stands before the projection on the vocabulary: hidden_BLD, each place blind to what follows it."""

    @abstractmethod
    def project(self, hidden_BLD: Tensor) -> Tensor:
        """logits_BLV"""

    @abstractmethod
    def begin(self, rows: int, max_length: int) -> Any:
        """A state with nothing read yet, and room for `max_length` tokens in each row. It can be reordered."""

    @abstractmethod
    def read(self, ids_RL: Tensor, state: Any) -> Tensor:
        """Go on from where `state` stands, with one token or many a row: hidden_RLD."""

    def forward(self, ids_BL: Tensor) -> Tensor:
        """logits_BLV of the token after each place."""
        return self.project(self.hidden(ids_BL))

    def step(self, tokens_R: Tensor, state: Any) -> Tensor:
        """Feed one token a row; logits_RV of the next."""
        return self.project(self.read(tokens_R[:, None], state))[:, 0]


class TextState:
    """What is remembered of the text so far, layer by layer: keys and values, or what they are made from."""

    def __init__(self, layers: Sequence[GrowingCache | LatentCache]) -> None:
        self.layers = list(layers)

    @property
    def length(self) -> int:
        return self.layers[0].length

    def reorder(self, rows_R: Tensor) -> None:
        """Keep these rows in this order."""
        for cache in self.layers:
            cache.reorder(rows_R)
