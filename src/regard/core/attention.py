"""Attention (the paper, section 3.2): scaled dot-product, written out and fused; multi-head.

A *kernel* is a function (q, k, v, mask, scale, bias, dropout) → (out, weights or None). The reference kernel
shows its weights; the fused one (PyTorch's, for many tokens) and the short one (short_attention.py, in C++, for few)
do not. Deviation from the paper: none; `bias` is for the position schemes that act on the scores.

Shapes: B batch, L query length, M memory length, D model, H heads, K head size.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.core.cache import FixedCache, GrowingCache
from regard.core.dropout import Dropout
from regard.core.linear import Linear, linear
from regard.core.positions import Positions
from regard.core.short_attention import fits as short_attention_fits
from regard.core.short_attention import short_attention
from regard.core.taps import Tap

Kernel = Literal["auto", "reference", "fused"]
Change = Callable[[Tensor], Tensor]
# PyTorch's fused CPU kernel is slower than three plain operators until the score matrix is large; with bfloat16,
# whose plain products are fast, until it is very large.
FUSED_FROM, FUSED_FROM_BFLOAT16 = 256 * 256, 768 * 768


def unchanged(x: Tensor) -> Tensor:
    return x


def fused_pays(q_BHLK: Tensor, k_BHMK: Tensor, dropout: float) -> bool:
    if dropout > 0 and q_BHLK.device.type == "cpu":  # it has no dropout there, and would be written out after all
        return False
    least = FUSED_FROM_BFLOAT16 if q_BHLK.dtype == torch.bfloat16 else FUSED_FROM
    return q_BHLK.shape[2] * k_BHMK.shape[2] >= least or q_BHLK.device.type != "cpu"


def reference_attention(
    q_BHLK: Tensor,
    k_BHMK: Tensor,
    v_BHMK: Tensor,
    mask: Tensor | None,
    scale: float,
    bias: Tensor | None = None,
    *,
    see_scores: Change = unchanged,
    see_weights: Change = unchanged,
    dropout: Change = unchanged,
) -> tuple[Tensor, Tensor]:
    """softmax(q kᵀ · scale + bias, where mask) v, one step after the other."""
    scores_BHLM = (q_BHLK * scale) @ k_BHMK.mT
    if bias is not None:
        scores_BHLM = scores_BHLM + bias.to(scores_BHLM.dtype)
    scores_BHLM = see_scores(scores_BHLM)
    if mask is not None:
        scores_BHLM = scores_BHLM.masked_fill(~mask, -math.inf)
    weights_BHLM = see_weights(scores_BHLM.softmax(dim=-1))
    return dropout(weights_BHLM) @ v_BHMK, weights_BHLM


def fused_attention(
    q_BHLK: Tensor,
    k_BHMK: Tensor,
    v_BHMK: Tensor,
    mask: Tensor | None,
    scale: float,
    bias: Tensor | None = None,
    dropout: float = 0.0,
) -> tuple[Tensor, None]:
    """The same through `F.scaled_dot_product_attention`, which never forms the whole weight matrix."""
    where: Tensor | None = mask
    if bias is not None:
        where = bias.to(q_BHLK.dtype)
        if mask is not None:
            where = torch.where(mask, where, -math.inf)
    return F.scaled_dot_product_attention(q_BHLK, k_BHMK, v_BHMK, where, dropout, scale=scale), None


class MultiHeadAttention(nn.Module):
    """concat(head_1 … head_H) W_O, head_i = attention(x W_Q, m W_K, m W_V), m = x in self-attention.

    W_Q, W_K and W_V are one matrix: self-attention is one product, cross-attention two. x_BLD in, BLD out.
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        dropout: float = 0.0,
        kernel: Kernel = "auto",
        *,
        head_size: int | None = None,
        bias: bool = True,
    ) -> None:
        """`head_size` None: d_model / n_heads, the paper's."""
        super().__init__()
        self.d_model, self.n_heads, self.head_size = d_model, n_heads, head_size or d_model // n_heads
        self.scale = self.head_size**-0.5  # an attribute, so that an experiment can leave it out
        self.kernel: Kernel = kernel
        inner = self.n_heads * self.head_size
        self.qkv = Linear(d_model, 3 * inner, bias)
        self.out = Linear(inner, d_model, bias)
        self.dropout = Dropout(dropout)
        self.q, self.k, self.v, self.scores, self.weights = Tap(), Tap(), Tap(), Tap(), Tap()
        self.head_out, self.attn_out = Tap(), Tap()

    def forward(
        self,
        x_BLD: Tensor,
        memory_BMD: Tensor | None = None,
        mask: Tensor | None = None,
        bias: Tensor | None = None,
        positions: Positions | None = None,
        cache: GrowingCache | FixedCache | None = None,
    ) -> Tensor:
        """Self-attention, unless there is a memory (or the cache of one). `mask` and `bias` fit scores_BHLM."""
        if isinstance(cache, FixedCache):
            q_BHLK = self.heads(self.project(x_BLD, 0, 1))
            k_BHMK, v_BHMK = cache.k_RHMK, cache.v_RHMK
        elif memory_BMD is not None:
            q_BHLK = self.heads(self.project(x_BLD, 0, 1))
            k_BHMK, v_BHMK = self.keys_and_values(memory_BMD)
        else:
            q_BLD, k_BLD, v_BLD = self.qkv(x_BLD).chunk(3, dim=-1)
            start = 0 if cache is None else cache.length
            q_BHLK, k_BHMK, v_BHMK = self.heads(q_BLD), self.heads(k_BLD), self.heads(v_BLD)
            if positions is not None:
                q_BHLK, k_BHMK = positions.rotate(q_BHLK, start), positions.rotate(k_BHMK, start)
            if cache is not None:
                k_BHMK, v_BHMK = cache.append(k_BHMK, v_BHMK)
        out_BHLK = self.mix(self.q(q_BHLK), self.k(k_BHMK), self.v(v_BHMK), mask, bias)
        joined_BLD = self.head_out(out_BHLK).transpose(1, 2).flatten(2)
        return self.attn_out(self.out(joined_BLD))  # type: ignore[no-any-return]

    def mix(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, bias: Tensor | None) -> Tensor:
        """The heads' values under the kernel that fits; whoever listens to the weights gets the reference."""
        scale = self.scale
        listened = self.scores.heard or self.weights.heard
        rate = self.dropout.rate if self.training else 0.0
        if not listened and self.kernel == "auto" and bias is None and short_attention_fits(q, k, v, mask):
            return short_attention(q, k, v, mask, scale, self.dropout.threshold if self.dropout.training else 0)
        if not listened and (self.kernel == "fused" or (self.kernel == "auto" and fused_pays(q, k, rate))):
            return fused_attention(q, k, v, mask, scale, bias, rate)[0]
        seen = {"see_scores": self.scores, "see_weights": self.weights} if listened else {}
        return reference_attention(q, k, v, mask, scale, bias, dropout=self.dropout, **seen)[0]

    def keys_and_values(self, memory_BMD: Tensor) -> tuple[Tensor, Tensor]:
        k_BMD, v_BMD = self.project(memory_BMD, 1, 3).chunk(2, dim=-1)
        return self.heads(k_BMD), self.heads(v_BMD)

    def project(self, x: Tensor, first: int, last: int) -> Tensor:
        """The part of W_Q, W_K, W_V from `first` up to `last`."""
        inner = self.n_heads * self.head_size
        rows = slice(first * inner, last * inner)
        bias: Tensor | None = self.qkv.bias
        return linear(x, self.qkv.weight[rows], None if bias is None else bias[rows], self.qkv.in_int8)

    def heads(self, x_BLD: Tensor) -> Tensor:
        return x_BLD.view(*x_BLD.shape[:-1], self.n_heads, self.head_size).transpose(1, 2)
