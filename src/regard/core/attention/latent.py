"""Multi-head latent attention (DeepSeek-V2 2024, section 2.1): keys and values from one small vector.

A token is pressed into a latent vector c and one short key that carries its place, the same for all heads. Each head's
keys and values are linear maps of c, so that c and the short key are all that a cache has to hold: in V3, 576 numbers a
token and layer where 128 heads of keys and values would be 40,960.

There are two ways to the same numbers. The plain one makes the keys and values of every head. The absorbed one takes
the key's map to the query's side and the value's to the output's (q · W c = Wᵀ q · c), so that all heads attend to the
latent vectors themselves: much less to do where a single query meets a long past, and more where there are many.

Shapes: B batch, L query length, M memory length, D model, H heads, K head size without place, P size of the part that
is turned, C latent, Q latent of the queries, V head size of the values, T room for tokens, R rows.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.core.attention.fused import fused_attention, fused_pays
from regard.core.attention.reference import reference_attention
from regard.core.dropout import Dropout
from regard.core.linear import Linear
from regard.core.norms import RMSNorm
from regard.core.positions import RotaryPositions
from regard.core.taps import Tap


class LatentCache:
    """What is remembered of each token: its latent vector, and the short key behind it."""

    def __init__(self, n_rows: int, room: int, size: int, like: Tensor) -> None:
        self.latent_RTC = like.new_empty(n_rows, room, size)
        self.length = 0

    def append(self, latent_RLC: Tensor) -> Tensor:
        """Everything remembered so far, the new ones among it."""
        end = self.length + latent_RLC.shape[1]
        if end > self.latent_RTC.shape[1]:  # the assignment below would drop a single token without a word
            raise ValueError(f"{end} tokens, but this cache has room for only {self.latent_RTC.shape[1]}")
        self.latent_RTC[:, self.length : end] = latent_RLC
        self.length = end
        return self.latent_RTC[:, :end]

    def reorder(self, rows_R: Tensor) -> None:
        """Keep these rows in this order; only what has been written is moved."""
        new_RTC = self.latent_RTC.new_empty(len(rows_R), *self.latent_RTC.shape[1:])
        new_RTC[:, : self.length] = self.latent_RTC[:, : self.length].index_select(0, rows_R)
        self.latent_RTC = new_RTC


class LatentAttention(nn.Module):
    """c, k_P = W_down x;  k_h = [W_K,h norm(c), turn(k_P)];  v_h = W_V,h norm(c);  q_h = [q_K, turn(q_P)] of x or of
    its own latent vector;  softmax(q_h k_hᵀ · scale) v_h, all heads side by side, times W_O.   x_BLD in, BLD out.
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
        """`q_rank` 0: queries come from x directly."""
        super().__init__()
        self.n_heads, self.head_size, self.value_size, self.kv_rank = n_heads, head_size, value_size, kv_rank
        self.positions = positions
        q_size = head_size + positions.head_size
        self.scale = q_size**-0.5 * positions.sharpness
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

    def forward(self, x_BLD: Tensor, mask: Tensor | None, cache: LatentCache | None = None) -> Tensor:
        """`mask` fits scores_BHLM. With a cache, x follows what is in it."""
        start = 0 if cache is None else cache.length
        q_BHLK = self.queries(x_BLD, start)
        latent_BMC = self.latent(self.compress(x_BLD, start))
        if cache is not None:
            latent_BMC = cache.append(latent_BMC)
        # Keys and values exist in the plain form alone, so whoever listens to them gets it.
        if cache is None or self.k.heard or self.v.heard:
            out_BHLV = self.attend(q_BHLK, latent_BMC, mask)
        else:
            out_BHLV = self.attend_absorbed(q_BHLK, latent_BMC, mask)
        joined = self.head_out(out_BHLV).transpose(1, 2).flatten(2)
        return self.attn_out(self.out(joined))  # type: ignore[no-any-return]

    def new_cache(self, n_rows: int, room: int, like: Tensor) -> LatentCache:
        """An empty cache for up to `room` tokens; `like` gives device and dtype."""
        return LatentCache(n_rows, room, self.kv_rank + self.positions.head_size, like)

    def queries(self, x_BLD: Tensor, start: int) -> Tensor:
        """q_BHL(K+P), the last P turned."""
        q = self.heads(self.q_up(self.q_norm(self.q_down(x_BLD))))
        still, turned = torch.split(q, [self.head_size, self.positions.head_size], dim=-1)
        return self.q(torch.cat([still, self.positions.rotate(turned, start)], dim=-1))  # type: ignore[no-any-return]

    def compress(self, x_BLD: Tensor, start: int) -> Tensor:
        """latent_BL(C+P): all that is remembered of x."""
        latent, key = torch.split(self.kv_down(x_BLD), [self.kv_rank, self.positions.head_size], dim=-1)
        turned = self.positions.rotate(key[:, None], start)[:, 0]
        return torch.cat([self.kv_norm(latent), turned], dim=-1)

    def attend(self, q_BHLK: Tensor, latent_BMC: Tensor, mask: Tensor | None) -> Tensor:
        """The plain form: out_BHLV from the keys and values of every head."""
        latent, key_BMP = torch.split(latent_BMC, [self.kv_rank, self.positions.head_size], dim=-1)
        kv = self.heads(self.kv_up(latent))
        still, v_BHMV = torch.split(kv, [self.head_size, self.value_size], dim=-1)
        k_BHMK = torch.cat([still, key_BMP[:, None].expand(-1, self.n_heads, -1, -1)], dim=-1)
        return self.mix(q_BHLK, self.k(k_BHMK), self.v(v_BHMV), mask)

    def attend_absorbed(self, q_BHLK: Tensor, latent_BMC: Tensor, mask: Tensor | None) -> Tensor:
        """The absorbed form: out_BHLV, all heads attending to the latent vectors themselves."""
        up_HKC = self.kv_up.weight.to(q_BHLK.dtype).view(self.n_heads, -1, self.kv_rank)
        key_HKC, value_HVC = torch.split(up_HKC, [self.head_size, self.value_size], dim=1)
        still, turned = torch.split(q_BHLK, [self.head_size, self.positions.head_size], dim=-1)
        absorbed_BHLC = torch.cat([still @ key_HKC, turned], dim=-1)
        seen_BHLC = self.mix(absorbed_BHLC, latent_BMC[:, None], latent_BMC[:, None, :, : self.kv_rank], mask)
        return seen_BHLC @ value_HVC.mT

    def mix(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        """Choose a kernel as in multi_head.py; the reference kernel when the scores or weights are tapped."""
        listened = self.scores.heard or self.weights.heard
        rate = self.dropout.rate if self.training else 0.0
        if fused_pays(q, k, rate) and not listened and k.shape[1] == q.shape[1]:
            return fused_attention(q, k, v, mask, self.scale, None, rate)[0]
        seen = {"see_scores": self.scores, "see_weights": self.weights} if listened else {}
        return reference_attention(q, k, v, mask, self.scale, None, dropout=self.dropout, **seen)[0]

    def heads(self, x_BLD: Tensor) -> Tensor:
        return x_BLD.view(*x_BLD.shape[:-1], self.n_heads, -1).transpose(1, 2)
