"""Embeddings: ids to vectors, and vectors to logits, with one matrix for both (the paper, section 3.4).

Shapes: B batch, L length, D model, V vocabulary.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.config import TiedEmbeddings
from regard.core.int8 import Int8Mixin
from regard.core.linear import linear


class Embedding(Int8Mixin, nn.Module):
    """embed: E[ids] · scale, which is sqrt(D) in the paper.  project: h Eᵀ.

    Training does not call `project`: it has its own products (train/vocabulary_matmul.py), which read `in_int8`.
    """

    def __init__(self, vocab_size: int, d_model: int, scale: float | None = None) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocab_size, d_model))
        self.scale = math.sqrt(d_model) if scale is None else scale

    def forward(self, ids_BL: Tensor) -> Tensor:
        return F.embedding(ids_BL, self.weight) * self.scale

    def project(self, hidden_BLD: Tensor) -> Tensor:
        return linear(hidden_BLD, self.weight, None)


def build_embeddings(
    tie_embeddings: TiedEmbeddings, src_vocab_size: int, tgt_vocab_size: int, d_model: int
) -> tuple[Embedding, Embedding, Embedding]:
    """The target, source and output embeddings: one matrix for all, one for target and output, or three."""
    tgt = Embedding(tgt_vocab_size, d_model)
    src = tgt if tie_embeddings == "all" else Embedding(src_vocab_size, d_model)
    output = Embedding(tgt_vocab_size, d_model) if tie_embeddings == "none" else tgt
    return tgt, src, output
