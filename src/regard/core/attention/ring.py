"""Ring attention (Liu et al. 2023): blockwise attention over a text that is cut among the ranks of torch.distributed.

Every rank holds the queries, keys and values of its own tokens (core/sharding.py). The keys and values go round the
ring of ranks, R − 1 times one further, while each rank merges what its queries see of them into its output by the
log-sum-exp. The backward pass sends them round again, and their gradients with them, the whole way round to the rank
that holds the tokens. Keys and values are on their way while those at hand are computed with.

Outside of `sharded`, and on a single rank, it is blockwise attention. Deviation: blocks that a causal mask hides are
not computed, but the ranks do not balance what is left; the layout zigzag does.

Shapes: B batch, L queries and M keys of one rank, H heads, K head size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.config.attention import RingLayout
from regard.core.attention.blockwise import BlockwiseAttention
from regard.core.attention.chunks import Chunk, Gradients, Plan, Scoring, attend, attend_backward, nothing_seen
from regard.core.attention.multi_head import Cache
from regard.core.masks import CausalMask, Mask
from regard.core.sharding import Sharding, current_sharding
from regard.errors import LostRank


class RingAttention(BlockwiseAttention):
    """softmax(q kᵀ · scale, where mask) v, with the keys and values of every rank."""

    def __init__(
        self, d_model: int, n_heads: int, dropout: float = 0.0, *, block: int, layout: RingLayout, **shape: Any
    ) -> None:
        super().__init__(d_model, n_heads, dropout, block=block, **shape)
        self.layout = layout

    def mix(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Mask | None, bias: Tensor | None, cache: Cache | None = None
    ) -> Tensor:
        sharding = current_sharding()
        if sharding is None or sharding.n_ranks == 1:
            return super().mix(q, k, v, mask, bias, cache)
        if self.hooked:
            raise ValueError("the weights of ring attention cannot be recorded: no rank has all of them")
        if bias is not None or cache is not None:
            raise ValueError("ring attention over several ranks takes neither a bias on the scores nor a cache")
        if sharding.layout != self.layout:
            raise ValueError(f"the text is cut in the layout {sharding.layout!r}, this attention has {self.layout!r}")
        if isinstance(mask, Tensor) and mask.shape[-2] != 1:
            raise ValueError("of masks, ring attention over several ranks takes CausalMask and those of padding")
        causal = isinstance(mask, CausalMask)
        plans = plan_ring(sharding, self.n_heads, q.shape[2], k.shape[2], causal, self.block)
        padding = None if mask is None or isinstance(mask, CausalMask) else mask
        return _Ring.apply(q, k, v, padding, plans, sharding, self.scale, self.dropout.active_p)  # type: ignore[no-untyped-call, no-any-return]


@lru_cache(maxsize=32)
def plan_ring(
    sharding: Sharding, n_heads: int, n_queries: int, n_keys: int, causal: bool, block: int
) -> tuple[Plan, ...]:
    """The plan of each step. At step s, rank r has the keys of rank r − s."""
    queries = list(blocks(sharding.pieces(n_queries) if causal else [range(n_queries)], block))
    plans = []
    for step in range(sharding.n_ranks):
        source = (sharding.rank - step) % sharding.n_ranks
        keys = list(blocks(sharding.pieces(n_keys, source) if causal else [range(n_keys)], block))
        chunks = []
        for query_rows, query_positions in queries:
            for key_rows, key_positions in keys:
                if causal and key_positions[0] > query_positions[-1]:
                    continue
                mask_lm = None
                if causal and key_positions[-1] > query_positions[0]:
                    mask_lm = torch.tensor(key_positions) <= torch.tensor(query_positions)[:, None]
                chunks.append(Chunk(slice(0, n_heads), query_rows, key_rows, mask_lm))
        plans.append(Plan(chunks, merges=True))
    return tuple(plans)


def blocks(pieces: Sequence[range], size: int) -> Iterator[tuple[slice, range]]:
    """Where each block of at most `size` tokens is held, and its positions; no block spans two pieces."""
    held = 0
    for piece in pieces:
        for first in range(0, len(piece), size):
            block = piece[first : first + size]
            yield slice(held + first, held + first + len(block)), block
        held += len(piece)


def computed_pairs(plans: Sequence[Plan]) -> list[int]:
    """The number of scores that a rank computes for one head, step by step."""
    return [sum(pairs(chunk.queries) * pairs(chunk.keys) for chunk in plan.chunks) for plan in plans]


def pairs(indices: slice | Tensor) -> int:
    return len(indices) if isinstance(indices, Tensor) else indices.stop - indices.start


class _Ring(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        mask: Tensor | None,
        plans: Sequence[Plan],
        sharding: Sharding,
        scale: float,
        dropout: float,
    ) -> Tensor:
        out, lse = nothing_seen(q, v)
        ctx.random_state = torch.get_rng_state() if dropout else None
        scaled_q = q * scale
        for plan, held in zip(plans, held_in_turn(sharding, k, v, mask), strict=True):
            attend(out, lse, scaled_q, held.k, held.v, plan, Scoring(held.mask, dropout=dropout))
        ctx.save_for_backward(q, k, v, out, lse, mask)
        ctx.plans, ctx.sharding, ctx.scale, ctx.dropout = plans, sharding, scale, dropout
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_out: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, out, lse, mask = ctx.saved_tensors
        scaled_q, grad_q = q * ctx.scale, torch.zeros_like(q)
        arriving: Transfer | None = None  # the gradients of the keys and values at hand, from the ranks before
        with torch.random.fork_rng(devices=[], enabled=bool(ctx.dropout)):
            if ctx.dropout:
                torch.set_rng_state(ctx.random_state)
            for plan, held in zip(ctx.plans, held_in_turn(ctx.sharding, k, v, mask), strict=True):
                grads = Gradients(grad_q, *(x.new_zeros(x.shape) for x in (held.k, held.v)))
                scoring = Scoring(held.mask, dropout=ctx.dropout)
                attend_backward(grads, grad_out, out, lse, scaled_q, held.k, held.v, plan, scoring)
                if arriving is not None:
                    for ours, theirs in zip((grads.k, grads.v), arriving.wait(), strict=True):
                        ours += theirs
                arriving = Transfer(ctx.sharding, [grads.k, grads.v], tag=GRADIENTS)
        assert arriving is not None
        grad_k, grad_v = arriving.wait()
        return grad_q.mul_(ctx.scale), grad_k, grad_v, *[None] * 5


@dataclass(frozen=True)
class Held:
    """The keys and values at hand, and which of them are not padding."""

    k: Tensor
    v: Tensor
    mask: Tensor | None


def held_in_turn(sharding: Sharding, k: Tensor, v: Tensor, mask: Tensor | None) -> Iterator[Held]:
    """The keys and values of this rank, then of the one before it, and so on round the ring."""
    tensors = [k.contiguous(), v.contiguous()] + ([] if mask is None else [mask.to(torch.uint8)])
    for step in range(sharding.n_ranks):
        is_last = step == sharding.n_ranks - 1
        leaving = None if is_last else Transfer(sharding, tensors, tag=KEYS)
        yield Held(tensors[0], tensors[1], tensors[2].bool() if len(tensors) > 2 else None)
        if leaving is not None:
            tensors = leaving.wait()


KEYS, GRADIENTS = 1, 2  # tags, so that the two do not meet


class Transfer:
    """Tensors on their way to the next rank, and as many on their way here from the one before."""

    def __init__(self, sharding: Sharding, tensors: Sequence[Tensor], tag: int) -> None:
        self.sharding, self.sent = sharding, list(tensors)  # kept until they are sent
        self.received = [torch.empty_like(x) for x in tensors]
        n = sharding.n_ranks
        following, previous = (sharding.rank + 1) % n, (sharding.rank - 1) % n
        works = []
        with losing_ranks(sharding):
            for ours, theirs in zip(self.sent, self.received, strict=True):
                works += [dist.isend(ours, following, tag=tag), dist.irecv(theirs, previous, tag=tag)]
        self.works = [work for work in works if work is not None]

    def wait(self) -> list[Tensor]:
        """What the rank before has sent."""
        with losing_ranks(self.sharding):
            for work in self.works:
                work.wait()
        return self.received


class losing_ranks:  # noqa: N801
    """Turns the errors of torch.distributed within the block into a LostRank, which says what to do."""

    def __init__(self, sharding: Sharding) -> None:
        self.sharding = sharding

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if isinstance(error, RuntimeError):
            rank, n = self.sharding.rank, self.sharding.n_ranks
            raise LostRank(
                f"rank {rank} of {n} has lost another rank: its process has ended, or did not answer in time. "
                f"All ranks end; start them again together ({str(error).splitlines()[0]})"
            ) from error
