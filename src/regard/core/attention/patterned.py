"""Multi-head attention in which each head sees what its pattern allows: the base of window, sparse, block and span.

Short texts, and those whose scores or weights have a hook, are computed with a dense mask: the definition. Others
are computed chunk by chunk (chunks.py), in memory linear in the length. A query that sees no key at all, such as one
whose whole block is padding, gets zeros from that head.

Shapes: B batch, L query length, M memory length, H heads, K head size.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.core.attention.chunks import Plan, chunked_attention
from regard.core.attention.multi_head import Cache, MultiHeadAttention
from regard.core.attention.patterns import Pattern, plan_by_positions, plan_for, seen
from regard.core.cache import PrunedCache
from regard.core.masks import CausalMask, Mask

CHUNK = (64, 1024, 128)  # at most so many queries and keys; queries of keys that are no range
DENSE_UP_TO = 256 * 256  # pairs: with fewer, the dense mask is faster


class PatternedAttention(MultiHeadAttention):
    """softmax(q kᵀ · scale, where pattern and mask) v, per head."""

    chunk: tuple[int, ...] = CHUNK  # tests make it smaller, and dense_up_to
    dense_up_to = DENSE_UP_TO

    patterns: tuple[Pattern, ...]

    def mix(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Mask | None, bias: Tensor | None, cache: Cache | None = None
    ) -> Tensor:
        if bias is not None:
            raise ValueError("positions that act on the scores (alibi, relative) need full or blockwise attention")
        query_L, key_M = self.token_positions(q, k, cache)
        if self.is_dense(q, k):
            return self.dense(q, k, v, self.dense_mask(q, k, mask, cache), query_L[:, None] - key_M)
        causal, given = isinstance(mask, CausalMask), self.given(mask, key_M)
        if len(query_L) == len(key_M):
            plan = plan_for(self.head_patterns(), len(key_M), causal, *self.chunk)
        else:
            plan = plan_by_positions(self.head_patterns(), query_L, key_M, causal, *self.chunk[:2])
        return self.by_chunks(q, k, v, plan, given)

    def head_patterns(self) -> tuple[Pattern, ...]:
        """What each head sees at present."""
        return self.patterns

    def is_dense(self, q: Tensor, k: Tensor) -> bool:
        return self.hooked or self.kernel == "reference" or q.shape[2] * k.shape[2] <= self.dense_up_to

    def dense_mask(self, q: Tensor, k: Tensor, mask: Mask | None, cache: Cache | None) -> Tensor:
        """What pattern and mask allow, to fit scores_BHLM."""
        query_L, key_M = self.token_positions(q, k, cache)
        seen_HLM = seen(self.head_patterns(), query_L, key_M, isinstance(mask, CausalMask))
        given = self.given(mask, key_M)
        return seen_HLM if given is None else seen_HLM & given

    def given(self, mask: Mask | None, key_M: Tensor) -> Tensor | None:
        """A mask that is a matrix, for the keys that a cache still holds."""
        if mask is None or isinstance(mask, CausalMask) or mask.shape[-1] in (1, len(key_M)):
            return None if isinstance(mask, CausalMask) else mask
        return mask.index_select(-1, key_M)

    def token_positions(self, q: Tensor, k: Tensor, cache: Cache | None) -> tuple[Tensor, Tensor]:
        """Where in the text the queries and the keys stand."""
        if isinstance(cache, PrunedCache):
            return torch.arange(cache.length - q.shape[2], cache.length), cache.positions_M
        return torch.arange(q.shape[2]), torch.arange(k.shape[2])

    def dense(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor, distance_LM: Tensor) -> Tensor:
        """The definition. Hooks are called."""
        scores_BHLM = self.scores((q * self.scale) @ k.mT)
        return self.dropout(self.weights(masked_softmax(scores_BHLM, mask))) @ v  # type: ignore[no-any-return]

    def by_chunks(self, q: Tensor, k: Tensor, v: Tensor, plan: Plan, mask: Tensor | None) -> Tensor:
        return chunked_attention(q, k, v, plan, mask, self.scale, dropout=self.dropout.active_p)

    def new_cache(self, n_rows: int, capacity: int, like: Tensor) -> PrunedCache:
        """An empty cache, which holds what a later token may see; at most `capacity` tokens may be read."""
        return PrunedCache(n_rows, self.n_heads, capacity, self.head_size, like, self.needed)

    def needed(self, key_M: Tensor, length: int) -> Tensor:
        """Whether any head at `length` or later sees the key at a position."""
        return torch.stack([pattern.needed(key_M, length) for pattern in set(self.head_patterns())]).any(0)


def masked_softmax(scores_BHLM: Tensor, mask: Tensor) -> Tensor:
    """Zeros where a row has no key. A finite least score keeps NaN out of the backward pass."""
    least = torch.finfo(scores_BHLM.dtype).min
    return scores_BHLM.masked_fill(~mask, least).softmax(dim=-1).masked_fill(~mask, 0.0)
