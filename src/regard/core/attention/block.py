"""Block attention (BlockBERT: Qiu et al. 2020, section 3): each head sees one block of keys under a permutation.

The positions of the longest input are divided into n blocks. Head h lets block i of the queries see block
(i + shift_h) mod n of the keys; the paper's permutations are such shifts. Blocks belong to positions, not to the length
of an input, so that padding changes nothing: where a query's block of keys is beyond the input or all padding, the
head brings zeros.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.config.attention import BlockAttentionConfig
from regard.core.attention.multi_head import Cache
from regard.core.attention.patterned import PatternedAttention
from regard.core.attention.patterns import Pattern, Piece
from regard.core.masks import Mask


@dataclass(frozen=True)
class ShiftedBlocks(Pattern):
    """The block of k is the block of q plus shift, modulo their number."""

    size: int
    number: int
    shift: int

    def sees(self, query: Tensor, key: Tensor) -> Tensor:
        return (query // self.size + self.shift) % self.number == key // self.size

    def pieces(self, length: int, n_queries: int) -> Iterator[Piece]:
        for block in range(-(-length // self.size)):
            other = (block + self.shift) % self.number * self.size
            if other < length:
                queries = slice(block * self.size, min((block + 1) * self.size, length))
                yield Piece(queries, slice(other, min(other + self.size, length)), self.sees)

    def needed(self, key: Tensor, length: int) -> Tensor:
        return torch.ones_like(key, dtype=torch.bool)


class BlockAttention(PatternedAttention):
    """One shift per head, the shifts of the config repeated."""

    def __init__(
        self, d_model: int, n_heads: int, dropout: float = 0.0, *, config: BlockAttentionConfig, **shape: Any
    ) -> None:
        super().__init__(d_model, n_heads, dropout, **shape)
        self.longest, size, shifts = config.length, config.length // config.n_blocks, config.shifts
        self.patterns = tuple(
            ShiftedBlocks(size, config.n_blocks, shifts[head % len(shifts)]) for head in range(n_heads)
        )

    def mix(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Mask | None, bias: Tensor | None, cache: Cache | None = None
    ) -> Tensor:
        if k.shape[2] > self.longest:
            raise ValueError(f"{k.shape[2]} tokens, but the blocks of this model's attention end at {self.longest}")
        return super().mix(q, k, v, mask, bias, cache)
