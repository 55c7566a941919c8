"""Multi-head attention (the paper, section 3.2.2), which selects the kernel for each call.

A *kernel* is a function (q, k, v, mask, scale, bias, dropout) → (out, weights or None). The reference kernel
(reference.py) returns its weights; the fused one (fused.py, PyTorch's, for long sequences) and the short one (short.py,
C++, for short ones) do not. Deviation from the paper: none; `bias` is for position biases on the scores.

Shapes: B batch, L query length, M memory length, D model, H heads, K head size.
"""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn

from regard.core.attention.fused import fused_attention, fused_pays
from regard.core.attention.reference import reference_attention
from regard.core.attention.short import fits as short_attention_fits
from regard.core.attention.short import short_attention
from regard.core.cache import FixedCache, GrowingCache, PrunedCache
from regard.core.dropout import Dropout
from regard.core.linear import Linear, linear
from regard.core.masks import Mask, dense
from regard.core.positions import Positions
from regard.core.taps import Tap

Kernel = Literal["auto", "reference", "fused"]
Cache = GrowingCache | PrunedCache | FixedCache


class MultiHeadAttention(nn.Module):
    """concat(head_1 … head_H) W_O, head_i = attention(x W_Q, m W_K, m W_V), m = x in self-attention.

    W_Q, W_K and W_V are one matrix: self-attention takes one product, cross-attention two. x_BLD in, BLD out.
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
        scale: float | None = None,
    ) -> None:
        """`head_size` None: d_model / n_heads, the paper's; `scale` None: head_size^-0.5, the paper's."""
        super().__init__()
        self.d_model, self.n_heads, self.head_size = d_model, n_heads, head_size or d_model // n_heads
        # An attribute, so that an intervention can change it.
        self.scale = self.head_size**-0.5 if scale is None else scale
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
        mask: Mask | None = None,
        bias: Tensor | None = None,
        positions: Positions | None = None,
        cache: Cache | None = None,
    ) -> Tensor:
        """Self-attention, unless there is a memory (or its cache). `mask` and `bias` broadcast to scores_BHLM."""
        out_BHLK = self.attend(x_BLD, memory_BMD, mask, bias, positions, cache)
        joined_BLD = self.head_out(out_BHLK).transpose(1, 2).flatten(2)
        return self.attn_out(self.out(joined_BLD))  # type: ignore[no-any-return]

    def attend(
        self,
        x_BLD: Tensor,
        memory_BMD: Tensor | None,
        mask: Mask | None,
        bias: Tensor | None,
        positions: Positions | None,
        cache: Cache | None,
    ) -> Tensor:
        """out_BHLK: the output of each head."""
        if isinstance(cache, FixedCache):
            q_BHLK = self.heads(self.project(x_BLD, 0, 1))
            k_BHMK, v_BHMK = cache.k_RHMK, cache.v_RHMK
        elif memory_BMD is not None:
            q_BHLK = self.heads(self.project(x_BLD, 0, 1))
            k_BHMK, v_BHMK = self.keys_and_values(memory_BMD)
        else:
            q_BHLK, k_BHMK, v_BHMK = self.queries_keys_values(x_BLD, positions, cache)
        return self.mix(self.q(q_BHLK), self.k(k_BHMK), self.v(v_BHMK), mask, bias, cache)

    def queries_keys_values(
        self, x_BLD: Tensor, positions: Positions | None, cache: GrowingCache | PrunedCache | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Of self-attention; the keys and values that the cache holds come first."""
        q_BHLK, k_BHLK, v_BHLK = (self.heads(part) for part in self.qkv(x_BLD).chunk(3, dim=-1))
        start = 0 if cache is None else cache.length
        if positions is not None:
            q_BHLK, k_BHLK = positions.rotate(q_BHLK, start), positions.rotate(k_BHLK, start)
        if cache is None:
            return q_BHLK, k_BHLK, v_BHLK
        return q_BHLK, *cache.append(k_BHLK, v_BHLK)

    @property
    def hooked(self) -> bool:
        """Whether a value that only the reference kernel computes has a hook."""
        return self.scores.hooked or self.weights.hooked

    def mix(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Mask | None, bias: Tensor | None, cache: Cache | None = None
    ) -> Tensor:
        """The output of the heads, by the selected kernel: the reference one if the scores or weights have a hook."""
        scale, mask = self.scale, dense(mask)
        hooked = self.hooked
        rate = self.dropout.rate if self.training else 0.0
        if not hooked and self.kernel == "auto" and bias is None and short_attention_fits(q, k, v, mask):
            return short_attention(q, k, v, mask, scale, self.dropout.active_p)
        if not hooked and (self.kernel == "fused" or (self.kernel == "auto" and fused_pays(q, k, rate))):
            return fused_attention(q, k, v, mask, scale, bias, rate)[0]
        hooks = {"scores_hook": self.scores, "weights_hook": self.weights} if hooked else {}
        return reference_attention(q, k, v, mask, scale, bias, dropout=self.dropout, **hooks)[0]

    def new_cache(self, n_rows: int, capacity: int, like: Tensor) -> GrowingCache | PrunedCache:
        """An empty cache for self-attention over up to `capacity` tokens; `like` determines device and dtype."""
        return GrowingCache(n_rows, self.n_heads, capacity, self.head_size, like)

    def keys_and_values(self, memory_BMD: Tensor) -> tuple[Tensor, Tensor]:
        k_BMD, v_BMD = self.project(memory_BMD, 1, 3).chunk(2, dim=-1)
        return self.heads(k_BMD), self.heads(v_BMD)

    def project(self, x: Tensor, first: int, last: int, qkv: Linear | None = None) -> Tensor:
        """Multiply by some of W_Q, W_K, W_V: those from `first` up to, not including, `last`; or by some of `qkv`."""
        qkv = qkv or self.qkv
        inner = self.n_heads * self.head_size
        rows = slice(first * inner, last * inner)
        bias: Tensor | None = qkv.bias
        return linear(x, qkv.weight[rows], None if bias is None else bias[rows], qkv.in_int8)

    def heads(self, x_BLD: Tensor) -> Tensor:
        return x_BLD.view(*x_BLD.shape[:-1], self.n_heads, self.head_size).transpose(1, 2)
