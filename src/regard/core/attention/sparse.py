"""Sparse attention (Sparse Transformer: Child et al. 2019, section 4.3), with stride l and c summary columns.

    local     the l tokens before the query, and itself
    strided   the tokens at distances that l divides
    fixed     the query's own block of l tokens, and the last c tokens of every other block

One pattern per head, all merged under one softmax, or one per layer in turn. The paper's strided attention is local and
strided together. In an encoder the same holds to both sides.

A cache drops what no later token sees: all but l tokens of local; of fixed, all but the own block and the summaries,
which are c / l of the text; of strided, nothing, because every token is seen again l tokens later.

Shapes: L query length, M memory length, H heads.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, assert_never

import torch
from torch import Tensor

from regard.config.attention import SparseAttentionConfig, SparsePattern
from regard.core.attention.patterned import PatternedAttention
from regard.core.attention.patterns import Pattern, Piece, Union
from regard.core.attention.window import Window


@dataclass(frozen=True)
class Strided(Pattern):
    """stride divides q − k."""

    stride: int

    def sees(self, query: Tensor, key: Tensor) -> Tensor:
        return (query - key) % self.stride == 0

    def pieces(self, length: int, n_queries: int) -> Iterator[Piece]:
        for rest in range(min(self.stride, length)):
            yield Piece(slice(rest, length, self.stride), slice(rest, length, self.stride), self.sees)

    def needed(self, key: Tensor, length: int) -> Tensor:
        return torch.ones_like(key, dtype=torch.bool)


@dataclass(frozen=True)
class Fixed(Pattern):
    """q and k in one block, or k among the last columns of its block."""

    block: int
    columns: int

    def sees(self, query: Tensor, key: Tensor) -> Tensor:
        return (query // self.block == key // self.block) | self.is_summary(key)

    def is_summary(self, key: Tensor) -> Tensor:
        return key % self.block >= self.block - self.columns

    def pieces(self, length: int, n_queries: int) -> Iterator[Piece]:
        positions = torch.arange(length)
        for start in range(0, length, self.block):
            own = (positions // self.block) == start // self.block
            keys = (own | self.is_summary(positions)).nonzero().squeeze(1)
            yield Piece(slice(start, min(start + self.block, length)), keys, self.sees)

    def needed(self, key: Tensor, length: int) -> Tensor:
        return (key // self.block == length // self.block) | self.is_summary(key)


def build_pattern(name: SparsePattern, stride: int, columns: int) -> Pattern:
    match name:
        case "local":
            return Window(stride)
        case "strided":
            return Strided(stride)
        case "fixed":
            return Fixed(stride, columns)
        case _:
            assert_never(name)


class SparseAttention(PatternedAttention):
    """Heads are divided among the patterns in order, as evenly as they can be."""

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        dropout: float = 0.0,
        *,
        config: SparseAttentionConfig,
        layer: int = 0,
        **shape: Any,
    ) -> None:
        super().__init__(d_model, n_heads, dropout, **shape)
        every = tuple(build_pattern(name, config.stride, config.summary_columns) for name in config.patterns)
        match config.combine:
            case "heads":
                self.patterns = tuple(every[head * len(every) // n_heads] for head in range(n_heads))
            case "merged":
                self.patterns = (Union(every),) * n_heads
            case "layers":
                self.patterns = (every[layer % len(every)],) * n_heads
            case _:
                assert_never(config.combine)
