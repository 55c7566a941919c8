"""Blockwise attention (Blockwise Parallel Transformer: Liu & Abbeel 2023): full attention, block by block.

The softmax is kept online while the blocks of keys go by, and the backward pass computes each block of scores again, so
that memory is linear in the length. The feed-forward networks of the same model are computed block by block too
(core/feedforward.py). Deviation: positions that act on the scores are given as a whole matrix, which their model holds.

Shapes: B batch, L query length, M memory length, H heads, K head size.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from regard.core.attention.chunks import Chunk, Plan, chunked_attention
from regard.core.attention.multi_head import Cache, MultiHeadAttention
from regard.core.masks import CausalMask, Mask


class BlockwiseAttention(MultiHeadAttention):
    """softmax(q kᵀ · scale + bias, where mask) v in blocks of `block` queries and as many keys."""

    def __init__(self, d_model: int, n_heads: int, dropout: float = 0.0, *, block: int, **shape: Any) -> None:
        super().__init__(d_model, n_heads, dropout, **shape)
        self.block = block

    def mix(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Mask | None, bias: Tensor | None, cache: Cache | None = None
    ) -> Tensor:
        """Whatever fits into one block is full attention as it stands."""
        L, M = q.shape[2], k.shape[2]
        if self.hooked or self.kernel == "reference" or self.block**2 >= L * M:
            return super().mix(q, k, v, mask, bias, cache)
        causal = isinstance(mask, CausalMask)
        given = None if isinstance(mask, CausalMask) else mask
        plan = plan_blocks(self.n_heads, L, M, causal, self.block)
        # Beams may share one memory.
        k, v = (x.expand(len(q), -1, -1, -1) for x in (k, v))
        return chunked_attention(q, k, v, plan, given, self.scale, bias, self.dropout.active_p)


@lru_cache(maxsize=32)
def plan_blocks(n_heads: int, n_queries: int, n_keys: int, causal: bool, block: int) -> Plan:
    """Every block of queries with every block of keys; the last query is at the last key."""
    heads, chunks, start = slice(0, n_heads), [], n_keys - n_queries
    for first_query in range(0, n_queries, block):
        queries = slice(first_query, min(first_query + block, n_queries))
        for first_key in range(0, start + queries.stop if causal else n_keys, block):
            keys = slice(first_key, min(first_key + block, n_keys))
            query_l, key_m = start + torch.arange(queries.start, queries.stop), torch.arange(keys.start, keys.stop)
            mask_lm = key_m <= query_l[:, None]
            chunks.append(Chunk(heads, queries, keys, None if not causal or mask_lm.all() else mask_lm))
    return Plan(chunks, merges=n_keys > block)
