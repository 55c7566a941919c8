"""Attention within buckets: the fast path of LSH attention, in memory linear in the length, forward and backward.

The tokens of a bucket stand in tiles of `chunk` slots, in order of position; those of a tile see each other and the
tile before. All tiles of a round have one shape, so that many of them are one product of matrices; those of short
buckets are made narrower. The rounds are merged by their log-sum-exp. A pair that an earlier round has seen is hidden.
The backward pass computes the scores again.

Shapes: B batch, L length, H heads, K head size, S rounds, N = B·H·L tokens of all heads, T tiles, C slots of a tile,
G tiles computed at once, W their width, m the slots that they see.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.core.attention.chunks import kept

AT_ONCE = 2**18  # scores


@dataclass(frozen=True)
class Layout:
    """How tokens are numbered: a token sees those whose place is its own or one less."""

    n_buckets: int
    chunk: int
    length: int  # of the longest text

    def places(self, bucket: Tensor, rank: Tensor) -> Tensor:
        """The number of the chunk, with a gap behind the last of each bucket."""
        return bucket * (self.length // self.chunk + 2) + rank // self.chunk


def ranks_of(bucket_XL: Tensor, n_buckets: int) -> Tensor:
    """rank_XL: how many earlier tokens are in the same bucket."""
    order = bucket_XL.argsort(dim=-1, stable=True)
    counts = bucket_XL.new_zeros(*bucket_XL.shape[:-1], n_buckets)
    counts.scatter_add_(-1, bucket_XL, torch.ones_like(bucket_XL))
    starts = counts.cumsum(-1) - counts
    sorted_rank = torch.arange(bucket_XL.shape[-1], device=bucket_XL.device) - starts.gather(
        -1, bucket_XL.gather(-1, order)
    )
    return torch.empty_like(bucket_XL).scatter_(-1, order, sorted_rank)


@dataclass(frozen=True)
class Slab:
    """Tiles that are computed together."""

    tile_G: Tensor
    width: int  # no tile has more tokens
    full: bool  # every tile has as many
    before: bool  # whether they see the tile before


@dataclass(frozen=True)
class Tiles:
    """One round. Row N and slot T · C stand for nothing."""

    row_TC: Tensor
    slot_N: Tensor
    slabs: tuple[Slab, ...]


def tiles_of(bucket_XL: Tensor, rank_XL: Tensor, layout: Layout) -> Tiles:
    """X = B·H. Padding is in the bucket `n_buckets`, and in no tile."""
    C, nb = layout.chunk, layout.n_buckets
    counts_Xb = bucket_XL.new_zeros(len(bucket_XL), nb + 1)
    counts_Xb.scatter_add_(1, bucket_XL, torch.ones_like(bucket_XL))
    tiles_Xb = -(-counts_Xb // C)
    tiles_Xb[:, nb] = 0
    first_Xb = (tiles_Xb.flatten().cumsum(0) - tiles_Xb.flatten()).view_as(tiles_Xb)
    n_tiles, n_rows = int(tiles_Xb.sum()), bucket_XL.numel()
    chunk_XL = rank_XL // C
    tile_N = (first_Xb.gather(1, bucket_XL) + chunk_XL).flatten()
    real_N = (bucket_XL < nb).flatten()
    slot_N = torch.where(real_N, tile_N * C + rank_XL.flatten() % C, n_tiles * C)
    row_TC = slot_N.new_full((n_tiles * C + 1,), n_rows)
    row_TC[slot_N] = torch.where(real_N, torch.arange(n_rows, device=slot_N.device), n_rows)
    row_TC = row_TC[:-1].view(n_tiles, C)
    before_T = slot_N.new_zeros(n_tiles + 1)
    before_T[torch.where(real_N, tile_N, n_tiles)] = chunk_XL.flatten()
    size_T = (row_TC < n_rows).sum(1)
    return Tiles(row_TC, slot_N, tuple(slabs_of(size_T, before_T[:-1] > 0, C)))


def slabs_of(size_T: Tensor, before_T: Tensor, chunk: int) -> Iterator[Slab]:
    """Tiles of similar sizes together."""
    for before in (False, True):
        tile_G = (before_T == before).nonzero().squeeze(1)
        tile_G = tile_G[size_T[tile_G].argsort(descending=True, stable=True)]
        sizes = size_T[tile_G].tolist()
        start = 0
        while start < len(sizes):
            width = sizes[start]
            step = max(AT_ONCE // (width * (width + chunk * before)), 1)
            stop = min(start + step, len(sizes))
            yield Slab(tile_G[start:stop], width, sizes[stop - 1] == width, before)
            start = stop


def bucketed_attention(
    q_BHLK: Tensor,
    k_BHLK: Tensor,
    v_BHLK: Tensor,
    bucket_SBHL: Tensor,
    layout: Layout,
    causal: bool,
    scale: float,
    dropout: float = 0.0,
    count: bool = False,
) -> tuple[Tensor, int]:
    """out_BHLK, and how many pairs were seen if `count`. Padding is in the bucket `n_buckets`; its output is zero."""
    counted = [0] if count else None
    bucket_SXL = bucket_SBHL.flatten(1, 2)
    out = _BucketedAttention.apply(q_BHLK, k_BHLK, v_BHLK, bucket_SXL, layout, causal, scale, dropout, counted)  # type: ignore[no-untyped-call]
    return out, counted[0] if counted else 0


class _BucketedAttention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        bucket_SXL: Tensor,
        layout: Layout,
        causal: bool,
        scale: float,
        dropout: float,
        counted: list[int] | None,
    ) -> Tensor:
        ctx.random_state = torch.get_rng_state() if dropout else None
        run = Rounds(q, k, v, bucket_SXL, layout, causal, scale, dropout)
        out_NK, lse_N = run.forward(counted)
        ctx.save_for_backward(q, k, v, bucket_SXL, out_NK, lse_N)
        ctx.layout, ctx.causal, ctx.scale, ctx.dropout = layout, causal, scale, dropout
        return out_NK.view_as(v)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_out: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, bucket_SXL, out_NK, lse_N = ctx.saved_tensors
        run = Rounds(q, k, v, bucket_SXL, ctx.layout, ctx.causal, ctx.scale, ctx.dropout)
        with torch.random.fork_rng(devices=[], enabled=bool(ctx.dropout)):
            if ctx.dropout:
                torch.set_rng_state(ctx.random_state)
            grads = run.backward(grad_out.reshape(out_NK.shape), out_NK, lse_N)
        return *(grad.view(x.shape) for grad, x in zip(grads, (q, k, v), strict=True)), *(None,) * 6


def with_empty_row(x_BHLK: Tensor) -> Tensor:
    """x_NK, and one more row of zeros."""
    return F.pad(x_BHLK.reshape(-1, x_BHLK.shape[-1]), (0, 0, 0, 1))


class Rounds:
    """All rounds over one batch: tokens of all rows and heads in one dimension."""

    def __init__(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        bucket_SXL: Tensor,
        layout: Layout,
        causal: bool,
        scale: float,
        dropout: float,
    ) -> None:
        self.q_NK, self.k_NK, self.v_NK = with_empty_row(q * scale), with_empty_row(k), with_empty_row(v)
        self.causal, self.scale, self.dropout = causal, scale, dropout
        self.wide = torch.promote_types(q.dtype, torch.float32)
        rank_SXL = ranks_of(bucket_SXL, layout.n_buckets + 1)
        self.tiles = [tiles_of(*round_, layout) for round_ in zip(bucket_SXL, rank_SXL, strict=True)]
        self.place_SN = F.pad(layout.places(bucket_SXL, rank_SXL).flatten(1), (0, 1)).to(torch.int32)
        self.real_N = (bucket_SXL[0] < layout.n_buckets).flatten()

    def rows(self, tiles: Tiles, slab: Slab) -> tuple[Tensor, Tensor]:
        """row_GW of the queries and row_Gm of what they see."""
        row_GW = tiles.row_TC[slab.tile_G, : slab.width]
        return row_GW, torch.cat([tiles.row_TC[slab.tile_G - 1], row_GW], dim=1) if slab.before else row_GW

    def scores(self, round_: int, slab: Slab, row_GW: Tensor, row_Gm: Tensor) -> tuple[Tensor, Tensor]:
        """scores_GWm, −∞ where a pair is hidden, and where that is."""
        W, m = slab.width, row_Gm.shape[1]
        itself = torch.arange(W, device=row_GW.device)[:, None] + (m - W)
        seen = torch.arange(m, device=row_GW.device)
        hidden = ((seen >= itself) if self.causal else (seen == itself)).expand(len(row_GW), W, m).contiguous()
        if not slab.full:
            hidden |= (row_GW == len(self.real_N))[:, :, None] | (row_Gm == len(self.real_N))[:, None]
        for place_N in self.place_SN[:round_]:
            apart = place_N[row_GW][:, :, None] - place_N[row_Gm][:, None]
            hidden |= apart.bitwise_right_shift_(1) == 0
        scores = (self.q_NK[row_GW] @ self.k_NK[row_Gm].mT).to(self.wide)
        return scores.masked_fill_(hidden, -math.inf), hidden

    def forward(self, counted: list[int] | None) -> tuple[Tensor, Tensor]:
        """out_NK and lse_N."""
        out_NK, lse_N = (
            torch.zeros_like(self.v_NK[:-1]),
            self.v_NK.new_full(self.real_N.shape, -math.inf, dtype=self.wide),
        )
        for number, tiles in enumerate(self.tiles):
            T, C = tiles.row_TC.shape
            mixed = self.v_NK.new_zeros(T * C + 1, self.v_NK.shape[1])
            lse = lse_N.new_full((T * C + 1,), -math.inf)
            mixed_TCK, lse_TC = mixed[:-1].view(T, C, -1), lse[:-1].view(T, C)
            for slab in tiles.slabs:
                row_GW, row_Gm = self.rows(tiles, slab)
                scores, hidden = self.scores(number, slab, row_GW, row_Gm)
                if counted is not None:
                    counted[0] += hidden.numel() - int(hidden.sum())
                top = scores.amax(-1, keepdim=True)
                top.masked_fill_(top == -math.inf, 0.0)
                weights = scores.sub_(top).exp_()
                total = weights.sum(-1, keepdim=True)
                if self.dropout:
                    weights *= kept(weights, self.dropout)
                weights /= total.masked_fill(total == 0.0, 1.0)
                mixed_TCK[slab.tile_G, : slab.width] = weights.to(mixed.dtype) @ self.v_NK[row_Gm]
                lse_TC[slab.tile_G, : slab.width] = (top + total.log()).squeeze(-1)
            here_NK, here_N = mixed[tiles.slot_N], lse[tiles.slot_N]
            both_N = torch.logaddexp(lse_N, here_N)
            safe_N = both_N.masked_fill(both_N == -math.inf, 0.0)
            out_NK.mul_((lse_N - safe_N).exp_()[:, None]).add_(here_NK.mul_((here_N - safe_N).exp_()[:, None]))
            lse_N = both_N
        return out_NK.add_(self.of_the_lonely(lse_N) * self.v_NK[:-1]), lse_N

    def of_the_lonely(self, lse_N: Tensor) -> Tensor:
        """The weight of itself: 1 for a token that sees no other, where dropout keeps it."""
        weight_N1 = ((lse_N == -math.inf) & self.real_N)[:, None].to(self.v_NK.dtype)
        return weight_N1 * kept(weight_N1, self.dropout) if self.dropout else weight_N1

    def backward(self, grad_NK: Tensor, out_NK: Tensor, lse_N: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The gradients of q, k and v."""
        inner_N = F.pad((grad_NK * out_NK).sum(-1, dtype=self.wide), (0, 1))
        safe_N = F.pad(lse_N.masked_fill(lse_N == -math.inf, 0.0), (0, 1))
        grad_NK = F.pad(grad_NK, (0, 0, 0, 1))
        sums = [torch.zeros_like(x[:-1]) for x in (self.q_NK, self.k_NK, self.v_NK)]
        for number, tiles in enumerate(self.tiles):
            T, C = tiles.row_TC.shape
            flat = [x.new_zeros(T * C + 1, x.shape[1]) for x in sums]
            of_q, of_k, of_v = (x[:-1].view(T, C, -1) for x in flat)
            for slab in tiles.slabs:
                row_GW, row_Gm = self.rows(tiles, slab)
                weights = self.scores(number, slab, row_GW, row_Gm)[0].sub_(safe_N[row_GW][..., None]).exp_()
                grad, v = grad_NK[row_GW], self.v_NK[row_Gm]
                grad_weights = (grad @ v.mT).to(self.wide)
                dropped = weights
                if self.dropout:
                    keep = kept(weights, self.dropout)
                    grad_weights *= keep
                    dropped = weights * keep
                grad_scores = grad_weights.sub_(inner_N[row_GW][..., None]).mul_(weights).to(v.dtype)
                of_q[slab.tile_G, : slab.width] = grad_scores @ self.k_NK[row_Gm]
                self.add(of_k, slab, grad_scores.mT @ self.q_NK[row_GW])
                self.add(of_v, slab, dropped.to(v.dtype).mT @ grad)
            for total, x in zip(sums, flat, strict=True):
                total += x[tiles.slot_N]
        sums[2] += self.of_the_lonely(lse_N) * grad_NK[:-1]
        return sums[0].mul_(self.scale), sums[1], sums[2]

    def add(self, sum_TCK: Tensor, slab: Slab, part_GmK: Tensor) -> None:
        """Add to the tiles and to those before them; within each, no tile occurs twice."""
        sum_TCK[slab.tile_G, : slab.width] += part_GmK[:, -slab.width :]
        if slab.before:
            sum_TCK[slab.tile_G - 1] += part_GmK[:, : -slab.width]
