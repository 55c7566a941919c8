"""What trainer, search, scoring and trace ask of a model that translates, of whatever family.

A base class and not a `Protocol`, because all of them also ask that it is an `nn.Module` (its parameters, its taps,
its device), and Python's types cannot say "this module, with these methods" in any other way.

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

    # The activations' precision; None: the weights'. Training in bf16 sets it and keeps float32 weights.
    compute_dtype: torch.dtype | None
    # The projection on the vocabulary: the loss takes its matrix and never forms the logits.
    output: Embedding
    # A number a word that is added to the logits, where the settings ask for it.
    output_bias: nn.Parameter | None

    def __init__(self) -> None:
        super().__init__()
        self.register_parameter("output_bias", None)

    @property
    @abstractmethod
    def longest_target(self) -> int | None:
        """The most tokens a target may have; None: no limit."""

    @abstractmethod
    def forward(self, src_BM: Tensor, tgt_BL: Tensor) -> Tensor:
        """logits_BLV of the token after each target position."""

    @abstractmethod
    def hidden(self, src_BM: Tensor, tgt_BL: Tensor) -> Tensor:
        """What stands before the projection on the vocabulary: hidden_BLD, each place blind to what follows it."""

    @abstractmethod
    def project(self, hidden_BLD: Tensor) -> Tensor:
        """logits_BLV"""

    @abstractmethod
    def begin(self, src_BM: Tensor, max_length: int) -> Any:
        """Encode, and make room for `max_length` target tokens; one row a sentence. A state that can be reordered."""

    @abstractmethod
    def step(self, tokens_R: Tensor, state: Any) -> Tensor:
        """Feed one token a row; logits_RV of the next."""
