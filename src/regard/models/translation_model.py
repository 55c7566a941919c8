"""The interface of a translation model, of any family, for the trainer, search, scoring and trace.

A base class rather than a `Protocol`, because they also need an `nn.Module` (its parameters, its taps, its device), and
Python's type system has no intersection of a class and a protocol.

Shapes: B batch, L target length, M source length, D model, V vocabulary, R rows of a search.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor, nn

from regard.core.embeddings import Embedding


class TranslationModel(nn.Module, ABC):
    """ids to logits, whole targets at once or step by step."""

    # Dtype of the activations; None: that of the weights. Training in bf16 sets it and keeps float32 weights.
    compute_dtype: torch.dtype | None
    # The projection to the vocabulary: the loss uses its matrix and never stores the logits of a batch.
    output: Embedding
    # One bias per token, added to the logits, if the config has one.
    output_bias: nn.Parameter | None

    def __init__(self) -> None:
        super().__init__()
        self.register_parameter("output_bias", None)

    @property
    @abstractmethod
    def longest_target(self) -> int | None:
        """The maximum length of a target, in tokens; None: no limit."""

    @abstractmethod
    def forward(self, src_BM: Tensor, tgt_BL: Tensor) -> Tensor:
        """logits_BLV of the token after each target position."""

    @abstractmethod
    def hidden(self, src_BM: Tensor, tgt_BL: Tensor) -> Tensor:
        """hidden_BLD, the input of the projection to the vocabulary. A position does not depend on later ones."""

    @abstractmethod
    def project(self, hidden_BLD: Tensor) -> Tensor:
        """logits_BLV"""

    @abstractmethod
    def begin(self, src_BM: Tensor, max_length: int) -> Any:
        """Encode, and return a state for up to `max_length` target tokens, with one row per sentence, which has the
        method `reorder`.
        """

    @abstractmethod
    def step(self, tokens_R: Tensor, state: Any) -> Tensor:
        """Feed one token per row; logits_RV of the next."""
