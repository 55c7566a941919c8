"""Sliding-window attention with global tokens (Longformer: Beltagy et al. 2020, sections 3.1 and 3.2).

A query sees the w tokens before it, itself, and, where the mask lets it, the w tokens after it; a dilated head sees
every d-th token of d times as wide a window. The first tokens of the text may be global: they see everything and
everything sees them. Global queries have projections of their own for queries, keys and values. Deviation: which
tokens are global is a number of first tokens ([CLS], a question put first), not a choice per text.

Shapes: B batch, L query length, M memory length, D model, H heads, K head size, G global tokens.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.config.attention import WindowAttentionConfig
from regard.core.attention.multi_head import Cache
from regard.core.attention.patterned import PatternedAttention, masked_softmax
from regard.core.attention.patterns import Pattern, Piece
from regard.core.cache import FixedCache, GrowingCache, PrunedCache
from regard.core.linear import Linear
from regard.core.masks import CausalMask, Mask, causal_mask
from regard.core.positions import Positions
from regard.core.taps import Tap


@dataclass(frozen=True)
class Window(Pattern):
    """|q − k| ≤ size · dilation and dilation divides q − k; the first `n_global` see and are seen by all."""

    size: int
    dilation: int = 1
    n_global: int = 0

    def sees(self, query: Tensor, key: Tensor) -> Tensor:
        offset = query - key
        mask = (offset.abs() <= self.size * self.dilation) & (offset % self.dilation == 0)
        return mask | (key < self.n_global) | (query < self.n_global) if self.n_global else mask

    def pieces(self, length: int, n_queries: int) -> Iterator[Piece]:
        first, step = min(self.n_global, length), self.dilation
        if first:
            yield Piece(slice(0, first), slice(0, length), self.sees)
            yield Piece(slice(first, length), slice(0, first), self.sees)
        for rest in range(step):  # tokens of one rest see each other only
            every = range(first + rest, length, step)
            for start in range(0, len(every), n_queries):
                stop = min(start + n_queries, len(every))
                low, high = max(start - self.size, 0), min(stop + self.size, len(every))
                queries, keys = every[start:stop], every[low:high]
                yield Piece(slice(queries[0], queries[-1] + 1, step), slice(keys[0], keys[-1] + 1, step), self.sees)

    def needed(self, key: Tensor, length: int) -> Tensor:
        return (key >= length - self.size * self.dilation) | (key < self.n_global)


class WindowCache(PrunedCache):
    """It also holds the keys and values of the global projections: a prompt may be read in parts."""

    early: GrowingCache

    def reorder(self, rows_R: Tensor) -> None:
        super().reorder(rows_R)
        self.early.reorder(rows_R)


@dataclass(frozen=True)
class GlobalRows:
    """The global queries among the tokens that are read, and the keys and values that they see."""

    q_BHGK: Tensor
    k_BHMK: Tensor
    v_BHMK: Tensor


class WindowAttention(PatternedAttention):
    """Global tokens have W_Q, W_K and W_V of their own, `global_qkv`."""

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        dropout: float = 0.0,
        *,
        config: WindowAttentionConfig,
        layer: int = 0,
        **shape: Any,
    ) -> None:
        super().__init__(d_model, n_heads, dropout, **shape)
        window = config.window[layer if len(config.window) > 1 else 0]
        dilations = config.dilation if len(config.dilation) > 1 else config.dilation * n_heads
        self.n_global_tokens = config.n_global_tokens
        self.patterns = tuple(Window(window, dilation, self.n_global_tokens) for dilation in dilations)
        if self.n_global_tokens:
            self.global_qkv = Linear(d_model, 3 * self.n_heads * self.head_size, self.qkv.bias is not None)
            self.global_q, self.global_k, self.global_v = Tap(), Tap(), Tap()

    def new_cache(self, n_rows: int, capacity: int, like: Tensor) -> PrunedCache:
        if not self.n_global_tokens:
            return super().new_cache(n_rows, capacity, like)
        cache = WindowCache(n_rows, self.n_heads, capacity, self.head_size, like, self.needed)
        cache.early = GrowingCache(n_rows, self.n_heads, min(self.n_global_tokens, capacity), self.head_size, like)
        return cache

    def attend(
        self,
        x_BLD: Tensor,
        memory_BMD: Tensor | None,
        mask: Mask | None,
        bias: Tensor | None,
        positions: Positions | None,
        cache: Cache | None,
    ) -> Tensor:
        start = cache.length if isinstance(cache, PrunedCache) else 0
        n_global = min(self.n_global_tokens - start, x_BLD.shape[1])
        if n_global <= 0:
            return super().attend(x_BLD, memory_BMD, mask, bias, positions, cache)
        causal = isinstance(mask, CausalMask) or cache is not None
        rows = self.global_rows(x_BLD, n_global, causal, positions, cache)
        assert not isinstance(cache, FixedCache)
        q, k, v = self.queries_keys_values(x_BLD, positions, cache)
        q, k, v = self.q(q), self.k(k), self.v(v)
        if self.is_dense(q, k):
            return self.dense_with(rows, q, k, v, self.dense_mask(q, k, mask, cache))
        out_BHLK = self.mix(q, k, v, mask, bias, cache)
        return torch.cat([self.mix_globally(rows, start, mask), out_BHLK[:, :, n_global:]], dim=2)

    def global_rows(
        self, x_BLD: Tensor, n_global: int, causal: bool, positions: Positions | None, cache: Cache | None
    ) -> GlobalRows:
        """Where the mask is causal, global queries see global tokens only, since they are the first."""
        seen_BMD = x_BLD[:, :n_global] if causal else x_BLD
        start = cache.length if isinstance(cache, PrunedCache) else 0
        q_BHGK = self.heads(self.project(x_BLD[:, :n_global], 0, 1, self.global_qkv))
        k_BHMK, v_BHMK = (self.heads(part) for part in self.project(seen_BMD, 1, 3, self.global_qkv).chunk(2, dim=-1))
        if positions is not None:
            q_BHGK, k_BHMK = positions.rotate(q_BHGK, start), positions.rotate(k_BHMK, start)
        if isinstance(cache, WindowCache):
            k_BHMK, v_BHMK = cache.early.append(k_BHMK, v_BHMK)
        return GlobalRows(self.global_q(q_BHGK), self.global_k(k_BHMK), self.global_v(v_BHMK))

    def mix_globally(self, rows: GlobalRows, start: int, mask: Mask | None) -> Tensor:
        """out_BHGK of the global queries, few of which see many."""
        G, M = rows.q_BHGK.shape[2], rows.k_BHMK.shape[2]
        if isinstance(mask, CausalMask):
            mask = causal_mask(G, M)
        elif mask is not None:
            mask = mask[..., :G, :M]
        scores = (rows.q_BHGK * self.scale) @ rows.k_BHMK.mT
        weights = scores.softmax(dim=-1) if mask is None else masked_softmax(scores, mask)
        return self.dropout(weights) @ rows.v_BHMK  # type: ignore[no-any-return]

    def dense_with(self, rows: GlobalRows, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        """The definition: the first rows of the scores are the global ones."""
        G, M = rows.q_BHGK.shape[2], rows.k_BHMK.shape[2]
        global_BHGM = F.pad((rows.q_BHGK * self.scale) @ rows.k_BHMK.mT, (0, k.shape[2] - M))
        local_BHLM = (q[:, :, G:] * self.scale) @ k.mT
        scores_BHLM = self.scores(torch.cat([global_BHGM, local_BHLM], dim=2))
        weights_BHLM = self.dropout(self.weights(masked_softmax(scores_BHLM, mask)))
        return torch.cat([weights_BHLM[:, :, :G, :M] @ rows.v_BHMK, weights_BHLM[:, :, G:] @ v], dim=2)
