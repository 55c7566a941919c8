"""Attention chunk by chunk: exact softmax over the keys that a plan names, without the L×M matrix of scores.

A plan is a list of chunks. A chunk is a few queries, keys that any of them may see, and which of these pairs are seen.
The softmax is kept online (Milakov & Gimelshein 2018): a query may occur in several chunks, with other keys in each,
and its partial results are merged by their log-sum-exp. The backward pass computes the scores of each chunk again from
the log-sum-exp (Rabe & Staats 2021; Dao et al. 2022), so that memory is linear in the length, forward and backward.

A query that sees nothing gets zeros, where `reference_attention` gives NaN.

Shapes: B batch, L query length, M memory length, H heads, K head size; l and m in a chunk; P distances.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.core.dropout import byte_threshold, inverse_keep_rate, random_bytes

Indices = slice | Tensor  # a range, or int64 indices
MOST_RANGES = 4  # of keys that are masked one by one


@dataclass(frozen=True)
class Chunk:
    """Queries computed together, and their keys; no pair of query and key may occur in two chunks of a plan."""

    heads: slice
    queries: slice
    keys: Indices
    mask_lm: Tensor | None = None  # None: every query sees every key of the chunk
    distance_lm: Tensor | None = None  # query position − key position; None: that of their indices

    @cached_property
    def hidden(self) -> list[tuple[slice, Tensor]]:
        """Ranges of the keys that not every query sees, and where in them a pair is not seen.

        Of a window these are its two edges, and masking them costs less than masking all.
        """
        if self.mask_lm is None:
            return []
        partly_m = (~self.mask_lm.all(0)).int()
        edges = torch.diff(partly_m, prepend=partly_m.new_zeros(1), append=partly_m.new_zeros(1)).nonzero().flatten()
        ranges = [slice(start, stop) for start, stop in edges.view(-1, 2).tolist()]
        if len(ranges) > MOST_RANGES:
            ranges = [slice(ranges[0].start, ranges[-1].stop)]
        return [(keys, ~self.mask_lm[:, keys]) for keys in ranges]


@dataclass(frozen=True)
class Plan:
    chunks: Sequence[Chunk]
    merges: bool  # whether a query occurs in several chunks


def take(x: Tensor, dim: int, indices: Indices) -> Tensor:
    """The part of a dimension; a view where the indices are a range."""
    if isinstance(indices, Tensor):
        return x.index_select(dim, indices)
    return x[(slice(None),) * (dim % x.dim()) + (indices,)]


def take_rows(x_BHLK: Tensor, heads: slice, indices: Indices) -> Tensor:
    return take(x_BHLK[:, heads], 2, indices)


def add_product(x_BHLK: Tensor, heads: slice, indices: Indices, left: Tensor, right: Tensor) -> None:
    """Add left @ right to rows in position; to a range without a copy of the product."""
    if isinstance(indices, Tensor):
        x_BHLK[:, heads].index_add_(2, indices, left @ right)
        return
    for rows_HLK, *factors in zip(x_BHLK[:, heads, indices], left, right, strict=True):
        rows_HLK.baddbmm_(*factors)


def part_of(x: Tensor, chunk: Chunk) -> Tensor:
    """The chunk's part of a tensor that broadcasts against scores_BHLM."""
    for dim, indices in ((-3, chunk.heads), (-2, chunk.queries), (-1, chunk.keys)):
        if x.dim() >= -dim and x.shape[dim] > 1:
            x = take(x, dim, indices)
    return x


def distances_of(chunk: Chunk, n_queries: int, n_keys: int) -> Tensor:
    """distance_lm = query position − key position."""
    if chunk.distance_lm is not None:
        return chunk.distance_lm
    return torch.arange(n_queries)[chunk.queries, None] - torch.arange(n_keys)[chunk.keys]


def scores_of(
    chunk: Chunk, q: Tensor, k: Tensor, mask: Tensor | None, bias: Tensor | None, by: Tensor | None
) -> Tensor:
    """The chunk's scores, −∞ where a pair is not seen. q is already scaled."""
    scores = take_rows(q, chunk.heads, chunk.queries) @ take_rows(k, chunk.heads, chunk.keys).mT
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    if bias is not None:
        scores = scores + part_of(bias, chunk)
    if by is not None:
        scores += by[chunk.heads, distances_of(chunk, q.shape[2], k.shape[2]).clamp(0, by.shape[1] - 1)]
    for keys, hidden_lm in chunk.hidden:
        scores[..., keys].masked_fill_(hidden_lm, -math.inf)
    if mask is not None:
        scores.masked_fill_(~part_of(mask, chunk), -math.inf)
    return scores


def chunked_attention(
    q_BHLK: Tensor,
    k_BHMK: Tensor,
    v_BHMK: Tensor,
    plan: Plan,
    mask: Tensor | None,
    scale: float,
    bias: Tensor | None = None,
    dropout: float = 0.0,
    by_distance_HP: Tensor | None = None,
) -> Tensor:
    """softmax(q kᵀ · scale + bias, where plan and mask) v.

    `mask` and `bias` broadcast to scores_BHLM. `by_distance_HP` is a bias by query position − key position, from 0
    to P − 1, which the distances of all pairs that are seen must be; the ranges of the plan must then have step 1.
    """
    return _ChunkedAttention.apply(q_BHLK, k_BHMK, v_BHMK, plan, mask, scale, bias, dropout, by_distance_HP)  # type: ignore[no-untyped-call, no-any-return]


@dataclass(frozen=True)
class Scoring:
    """What the scores of chunks are made of besides queries and keys, and the dropout of their weights."""

    mask: Tensor | None = None
    bias: Tensor | None = None
    by_distance_HP: Tensor | None = None
    dropout: float = 0.0


NO_SCORING = Scoring()


class _ChunkedAttention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        plan: Plan,
        mask: Tensor | None,
        scale: float,
        bias: Tensor | None,
        dropout: float,
        by: Tensor | None,
    ) -> Tensor:
        out, lse = nothing_seen(q, v)
        ctx.random_state = torch.get_rng_state() if dropout else None
        attend(out, lse, q * scale, k, v, plan, Scoring(mask, bias, by, dropout))
        ctx.save_for_backward(q, k, v, out, lse, mask, bias, by)
        ctx.plan, ctx.scale, ctx.dropout = plan, scale, dropout
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_out: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, out, lse, mask, bias, by = ctx.saved_tensors
        grads = Gradients(
            torch.zeros_like(q),
            torch.zeros_like(k),
            torch.zeros_like(v),
            torch.zeros_like(bias) if bias is not None and ctx.needs_input_grad[6] else None,
            torch.zeros_like(by) if by is not None and ctx.needs_input_grad[8] else None,
        )
        scoring = Scoring(mask, bias, by, ctx.dropout)
        with torch.random.fork_rng(devices=[], enabled=bool(ctx.dropout)):
            if ctx.dropout:
                torch.set_rng_state(ctx.random_state)
            attend_backward(grads, grad_out, out, lse, q * ctx.scale, k, v, ctx.plan, scoring)
        return grads.q.mul_(ctx.scale), grads.k, grads.v, None, None, None, grads.bias, None, grads.by_distance_HP


def nothing_seen(q: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """out_BHLK and lse_BHL, the log-sum-exp of the scores, before any key was seen."""
    lse = q.new_full(q.shape[:3], -math.inf, dtype=torch.promote_types(q.dtype, torch.float32))
    return q.new_zeros(*q.shape[:3], v.shape[3]), lse


def attend(
    out: Tensor, lse: Tensor, scaled_q: Tensor, k: Tensor, v: Tensor, plan: Plan, scoring: Scoring = NO_SCORING
) -> None:
    """Merge what the queries see of these keys into `out` and `lse`."""
    for chunk in plan.chunks:
        scores = scores_of(chunk, scaled_q, k, scoring.mask, scoring.bias, scoring.by_distance_HP)
        top = scores.amax(-1, keepdim=True)
        top.masked_fill_(top == -math.inf, 0.0)  # a row that sees nothing: exp(−∞ − 0) = 0
        weights = scores.sub_(top).exp_()
        total = weights.sum(-1, keepdim=True)
        if scoring.dropout:
            weights *= kept(weights, scoring.dropout)
        mixed = weights.to(v.dtype) @ take_rows(v, chunk.heads, chunk.keys)
        here = (top + total.log()).squeeze(-1)
        if plan.merges:
            before = take_rows(lse, chunk.heads, chunk.queries)
            both = torch.logaddexp(before, here)
            safe = both.masked_fill(both == -math.inf, 0.0)
            old, new = (before - safe).exp_()[..., None], (top - safe[..., None]).exp_()
            rows = take_rows(out, chunk.heads, chunk.queries) * old.to(out.dtype)
            mixed = rows.add_(mixed.mul_(new.to(out.dtype)))
            here = both
        else:
            mixed /= total.masked_fill_(total == 0.0, 1.0).to(out.dtype)
        out[:, chunk.heads, chunk.queries] = mixed
        lse[:, chunk.heads, chunk.queries] = here


@dataclass(frozen=True)
class Gradients:
    """Added to in position. That of q is by the scaled queries."""

    q: Tensor
    k: Tensor
    v: Tensor
    bias: Tensor | None = None
    by_distance_HP: Tensor | None = None


def attend_backward(
    grads: Gradients,
    grad_out: Tensor,
    out: Tensor,
    lse: Tensor,
    scaled_q: Tensor,
    k: Tensor,
    v: Tensor,
    plan: Plan,
    scoring: Scoring = NO_SCORING,
) -> None:
    """Add the gradients of what `attend` did with these keys; `out` and `lse` are those of all keys."""
    lse = lse.masked_fill(lse == -math.inf, 0.0)[..., None]
    for chunk in plan.chunks:
        heads, queries, keys = chunk.heads, chunk.queries, chunk.keys
        scores = scores_of(chunk, scaled_q, k, scoring.mask, scoring.bias, scoring.by_distance_HP)
        weights = scores.sub_(take_rows(lse, heads, queries)).exp_()
        grad = take_rows(grad_out, heads, queries)
        grad_weights = (grad @ take_rows(v, heads, keys).mT).to(weights.dtype)
        if scoring.dropout:
            keep = kept(weights, scoring.dropout)
            grad_weights *= keep
            dropped = (weights * keep).to(v.dtype)
        else:
            dropped = weights.to(v.dtype)
        add_product(grads.v, heads, keys, dropped.mT, grad)
        inner = (grad * take_rows(out, heads, queries)).sum(-1, keepdim=True, dtype=lse.dtype)
        grad_scores = grad_weights.sub_(inner).mul_(weights)
        if grads.bias is not None:
            add_part(grads.bias, chunk, grad_scores)
        if grads.by_distance_HP is not None:
            add_by_distance(grads.by_distance_HP, chunk, grad_scores, scaled_q.shape[2], k.shape[2])
        grad_scores = grad_scores.to(k.dtype)
        add_product(grads.q, heads, queries, grad_scores, take_rows(k, heads, keys))
        add_product(grads.k, heads, keys, grad_scores.mT, take_rows(scaled_q, heads, queries))


def kept(weights: Tensor, dropout: float) -> Tensor:
    """For each weight 0, or what it is multiplied by when dropout keeps it."""
    keep = random_bytes(weights.numel(), weights.device) >= byte_threshold(dropout)
    return keep.view(weights.shape).to(weights.dtype).mul_(inverse_keep_rate(dropout))


def add_part(grad_bias: Tensor, chunk: Chunk, grad_scores_BHlm: Tensor) -> None:
    """Add to the chunk's part of the gradient of a bias, summed over what it was broadcast along."""
    assert isinstance(chunk.keys, slice), "a bias needs chunks whose keys are ranges"
    part = part_of(grad_bias, chunk)
    part += grad_scores_BHlm.sum_to_size(part.shape).to(part.dtype)


def add_by_distance(grad_by: Tensor, chunk: Chunk, grad_scores_BHlm: Tensor, n_queries: int, n_keys: int) -> None:
    """Add the sums of equal distances. Of ranges these are the diagonals; skewing the rows makes them columns."""
    grad_Hlm, distance_lm = grad_scores_BHlm.sum(0).to(grad_by.dtype), distances_of(chunk, n_queries, n_keys)
    if isinstance(chunk.keys, Tensor):
        near = (distance_lm >= 0) & (distance_lm < grad_by.shape[1])
        grad_by[chunk.heads].index_add_(1, distance_lm[near], grad_Hlm[:, near])
        return
    H, l, m = grad_Hlm.shape  # noqa: E741
    width = m + l - 1
    skewed = F.pad(grad_Hlm.flip(-1), (0, l)).flatten(1)[:, : l * width].view(H, l, width)
    sums_HP = skewed.sum(1)  # column m − 1 − j + i of pair (i, j)
    first = int(distance_lm[0, -1])
    low, high = max(first, 0), min(first + width, grad_by.shape[1])
    if low < high:
        grad_by[chunk.heads, low:high] += sums_HP[:, low - first : high - first]
