"""The interface of a language model, of any family, for the trainer and for generation.

A base class rather than a `Protocol`, as in translation_model.py. Padding needs no mask: attention is causal, so what
follows a shorter text in a batch does not affect it.

Shapes: B batch, L length, D model, V vocabulary, R rows = texts being generated.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from regard.core.attention.latent import LatentCache
from regard.core.cache import GrowingCache, PrunedCache
from regard.core.embeddings import Embedding


class LanguageModel(nn.Module, ABC):
    """ids to logits of the next tokens, for whole texts or incrementally."""

    # Dtype of the activations; None: that of the weights. Training in bf16 sets it and keeps float32 weights.
    compute_dtype: torch.dtype | None
    # The projection to the vocabulary: the loss uses its matrix and never stores the logits of a batch.
    output: Embedding

    @property
    @abstractmethod
    def longest_text(self) -> int | None:
        """The context length, in tokens; None: no limit."""

    @abstractmethod
    def hidden(self, ids_BL: Tensor) -> Tensor:
        """hidden_BLD, the input of the projection to the vocabulary. A position does not depend on later ones."""

    @abstractmethod
    def project(self, hidden_BLD: Tensor) -> Tensor:
        """logits_BLV"""

    @abstractmethod
    def begin(self, rows: int, max_length: int) -> Any:
        """An empty state for up to `max_length` tokens per row. It has the method `reorder`."""

    @abstractmethod
    def read(self, ids_RL: Tensor, state: Any) -> Tensor:
        """hidden_RLD of these tokens, one or more per row, which follow those that `state` has read."""

    def forward(self, ids_BL: Tensor) -> Tensor:
        """logits_BLV of the token after each position."""
        return self.project(self.hidden(ids_BL))

    def step(self, tokens_R: Tensor, state: Any) -> Tensor:
        """Feed one token per row; logits_RV of the next."""
        return self.project(self.read(tokens_R[:, None], state))[:, 0]


class TextState:
    """The caches of all layers for the text so far: keys and values, or the latent vectors that they come from."""

    def __init__(self, layers: Sequence[GrowingCache | PrunedCache | LatentCache]) -> None:
        self.layers = list(layers)

    @property
    def length(self) -> int:
        return self.layers[0].length

    def reorder(self, rows_R: Tensor) -> None:
        """Select these rows, in this order."""
        for cache in self.layers:
            cache.reorder(rows_R)
