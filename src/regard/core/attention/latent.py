"""Multi-head latent attention (DeepSeek-V2 2024, section 2.1): keys and values computed from one small vector.

Each token is down-projected to a latent vector c and a short rotary key, shared by all heads. The keys and values of
each head are linear maps of c, so a cache stores only c and the rotary key: in V3, 576 numbers per token and layer,
where the keys and values of 128 heads would be 40,960.

The same result can be computed in two ways. The plain form computes the keys and values of every head. The absorbed
form multiplies the query by the key's projection and the output by the value's (q · W c = Wᵀ q · c), so that all heads
attend to the latent vectors directly: much less work for a single query over a long memory, more work for many queries.

Shapes: B batch, L query length, M memory length, D model, H heads, K head size without the rotary part, P size of the
rotary part, C latent, Q latent of the queries, V head size of the values, T capacity in tokens, R rows.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.core.attention.fused import fused_attention, fused_pays
from regard.core.attention.reference import reference_attention
from regard.core.dropout import Dropout
from regard.core.linear import Linear
from regard.core.masks import Mask, dense
from regard.core.norms import RMSNorm
from regard.core.positions import RotaryPositions
from regard.core.taps import Tap


class LatentCache:
    """The latent vector of each token, followed by its rotary key."""

    def __init__(self, n_rows: int, capacity: int, size: int, like: Tensor) -> None:
        self.latent_RTC = like.new_empty(n_rows, capacity, size)
        self.length = 0

    def append(self, latent_RLC: Tensor) -> Tensor:
        """All latent vectors so far, including the new ones."""
        end = self.length + latent_RLC.shape[1]
        if end > self.latent_RTC.shape[1]:  # the assignment below would drop a single token without an error
            raise ValueError(f"{end} tokens, but this cache has room for only {self.latent_RTC.shape[1]}")
        self.latent_RTC[:, self.length : end] = latent_RLC
        self.length = end
        return self.latent_RTC[:, :end]

    def reorder(self, rows_R: Tensor) -> None:
        """Select these rows, in this order; only what has been written is copied."""
        new_RTC = self.latent_RTC.new_empty(len(rows_R), *self.latent_RTC.shape[1:])
        new_RTC[:, : self.length] = self.latent_RTC[:, : self.length].index_select(0, rows_R)
        self.latent_RTC = new_RTC


class LatentAttention(nn.Module):
    """c, k_P = W_down x;  k_h = [W_K,h norm(c), rotate(k_P)];  v_h = W_V,h norm(c);  q_h = [q_K, rotate(q_P)] of x or
    of its own latent vector;  concat over h of softmax(q_h k_hᵀ · scale) v_h, times W_O.   x_BLD in, BLD out.
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        head_size: int,
        value_size: int,
        kv_rank: int,
        q_rank: int,
        positions: RotaryPositions,
        dropout: float = 0.0,
    ) -> None:
        """`q_rank` 0: queries are computed from x directly."""
        super().__init__()
        self.n_heads, self.head_size, self.value_size, self.kv_rank = n_heads, head_size, value_size, kv_rank
        self.positions = positions
        q_size = head_size + positions.head_size
        self.scale = q_size**-0.5 * positions.score_factor
        self.q_down = Linear(d_model, q_rank, bias=False) if q_rank else nn.Identity()
        self.q_norm = RMSNorm(q_rank) if q_rank else nn.Identity()
        self.q_up = Linear(q_rank or d_model, n_heads * q_size, bias=False)
        self.kv_down = Linear(d_model, kv_rank + positions.head_size, bias=False)
        self.kv_norm = RMSNorm(kv_rank)
        self.kv_up = Linear(kv_rank, n_heads * (head_size + value_size), bias=False)
        self.out = Linear(n_heads * value_size, d_model, bias=False)
        self.dropout = Dropout(dropout)
        self.latent, self.q, self.k, self.v, self.scores, self.weights = Tap(), Tap(), Tap(), Tap(), Tap(), Tap()
        self.head_out, self.attn_out = Tap(), Tap()

    def forward(self, x_BLD: Tensor, mask: Mask | None, cache: LatentCache | None = None) -> Tensor:
        """`mask` broadcasts to scores_BHLM. With a cache, the tokens of x follow those in it."""
        mask = dense(mask)
        start = 0 if cache is None else cache.length
        q_BHLK = self.queries(x_BLD, start)
        latent_BMC = self.latent(self.compress(x_BLD, start))
        if cache is not None:
            latent_BMC = cache.append(latent_BMC)
        # Only the plain form computes keys and values, so a hook on them selects it.
        if cache is None or self.k.hooked or self.v.hooked:
            out_BHLV = self.attend(q_BHLK, latent_BMC, mask)
        else:
            out_BHLV = self.attend_absorbed(q_BHLK, latent_BMC, mask)
        joined = self.head_out(out_BHLV).transpose(1, 2).flatten(2)
        return self.attn_out(self.out(joined))  # type: ignore[no-any-return]

    def new_cache(self, n_rows: int, capacity: int, like: Tensor) -> LatentCache:
        """An empty cache for up to `capacity` tokens; `like` determines device and dtype."""
        return LatentCache(n_rows, capacity, self.kv_rank + self.positions.head_size, like)

    def queries(self, x_BLD: Tensor, start: int) -> Tensor:
        """q_BHL(K+P), of which the last P are rotated."""
        q = self.heads(self.q_up(self.q_norm(self.q_down(x_BLD))))
        plain, rotary = torch.split(q, [self.head_size, self.positions.head_size], dim=-1)
        return self.q(torch.cat([plain, self.positions.rotate(rotary, start)], dim=-1))  # type: ignore[no-any-return]

    def compress(self, x_BLD: Tensor, start: int) -> Tensor:
        """latent_BL(C+P): what the cache stores for x."""
        latent, key = torch.split(self.kv_down(x_BLD), [self.kv_rank, self.positions.head_size], dim=-1)
        rotated = self.positions.rotate(key[:, None], start)[:, 0]
        return torch.cat([self.kv_norm(latent), rotated], dim=-1)

    def attend(self, q_BHLK: Tensor, latent_BMC: Tensor, mask: Tensor | None) -> Tensor:
        """The plain form: out_BHLV from the keys and values of every head."""
        latent, key_BMP = torch.split(latent_BMC, [self.kv_rank, self.positions.head_size], dim=-1)
        kv = self.heads(self.kv_up(latent))
        plain, v_BHMV = torch.split(kv, [self.head_size, self.value_size], dim=-1)
        k_BHMK = torch.cat([plain, key_BMP[:, None].expand(-1, self.n_heads, -1, -1)], dim=-1)
        return self.mix(q_BHLK, self.k(k_BHMK), self.v(v_BHMV), mask)

    def attend_absorbed(self, q_BHLK: Tensor, latent_BMC: Tensor, mask: Tensor | None) -> Tensor:
        """The absorbed form: out_BHLV, with all heads attending to the latent vectors."""
        up_HKC = self.kv_up.weight.to(q_BHLK.dtype).view(self.n_heads, -1, self.kv_rank)
        key_HKC, value_HVC = torch.split(up_HKC, [self.head_size, self.value_size], dim=1)
        plain, rotary = torch.split(q_BHLK, [self.head_size, self.positions.head_size], dim=-1)
        absorbed_BHLC = torch.cat([plain @ key_HKC, rotary], dim=-1)
        mixed_BHLC = self.mix(absorbed_BHLC, latent_BMC[:, None], latent_BMC[:, None, :, : self.kv_rank], mask)
        return mixed_BHLC @ value_HVC.mT

    def mix(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        """Select a kernel as in multi_head.py: the reference kernel if the scores or weights have a hook."""
        hooked = self.scores.hooked or self.weights.hooked
        rate = self.dropout.rate if self.training else 0.0
        if fused_pays(q, k, rate) and not hooked and k.shape[1] == q.shape[1]:
            return fused_attention(q, k, v, mask, self.scale, None, rate)[0]
        hooks = {"scores_hook": self.scores, "weights_hook": self.weights} if hooked else {}
        return reference_attention(q, k, v, mask, self.scale, None, dropout=self.dropout, **hooks)[0]

    def heads(self, x_BLD: Tensor) -> Tensor:
        return x_BLD.view(*x_BLD.shape[:-1], self.n_heads, -1).transpose(1, 2)
