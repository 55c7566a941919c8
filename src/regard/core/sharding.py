"""Sequence parallelism: a text cut among the ranks of torch.distributed, each of which holds some of its tokens.

    contiguous  rank r holds the r-th of R pieces
    zigzag      rank r holds pieces r and 2R − 1 − r of 2R: under a causal mask every rank then has the same work
                (Brandon et al. 2023, "Striped Attention", has the reason; this layout is that of Llama 3's training)

Within `sharded(sharding)` a model is given the tokens of its rank. Positions are those of the whole text, and ring
attention sees the whole text. Everything else in a Transformer acts on one token at a time.

Shapes: L tokens of this rank, whatever dimension they are in.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import assert_never

import torch
from torch import Tensor

from regard.config.attention import RingLayout


@dataclass(frozen=True)
class Sharding:
    """Which tokens of a text a rank holds. The text has as many as this rank's times the number of ranks."""

    rank: int
    n_ranks: int
    layout: RingLayout = "zigzag"

    @property
    def multiple(self) -> int:
        """What the length of a text must be a multiple of."""
        return self.n_ranks if self.layout == "contiguous" else 2 * self.n_ranks

    def pieces(self, n_local: int, rank: int | None = None) -> list[range]:
        """The positions that this or another rank holds, in order, where each holds `n_local` tokens."""
        rank, whole = self.rank if rank is None else rank, n_local * self.n_ranks
        match self.layout:
            case "contiguous":
                return [range(rank * n_local, (rank + 1) * n_local)]
            case "zigzag":
                if whole % self.multiple:
                    raise ValueError(f"{n_local} tokens per rank: zigzag needs an even number")
                half = n_local // 2
                starts = rank * half, whole - (rank + 1) * half
                return [range(start, start + half) for start in starts]
            case _:
                assert_never(self.layout)

    def positions(self, n_local: int) -> Tensor:
        """position_L of the tokens of this rank."""
        return torch.cat([torch.arange(piece.start, piece.stop) for piece in self.pieces(n_local)])

    def take(self, whole: Tensor, dim: int) -> Tensor:
        """This rank's part of a tensor of the whole text."""
        if whole.shape[dim] % self.multiple:
            raise ValueError(f"{whole.shape[dim]} tokens cannot be cut: pad them to a multiple of {self.multiple}")
        return whole.index_select(dim, self.positions(whole.shape[dim] // self.n_ranks).to(whole.device))


_current: ContextVar[Sharding | None] = ContextVar("sharding", default=None)


def current_sharding() -> Sharding | None:
    """How the text that is being computed is cut; None: it is not."""
    return _current.get()


@contextmanager
def sharded(sharding: Sharding) -> Iterator[None]:
    """Within the block, models are given the tokens of one rank."""
    before = _current.set(sharding)
    try:
        yield
    finally:
        _current.reset(before)


def token_positions(start: int, n_tokens: int) -> tuple[slice | Tensor, int]:
    """The positions of the tokens at hand, `start` and on if no text is cut; and where the text ends."""
    sharding = current_sharding()
    if sharding is None:
        return slice(start, start + n_tokens), start + n_tokens
    if start:
        raise ValueError("a text that is cut among ranks is computed at once, without a cache")
    return sharding.positions(n_tokens), n_tokens * sharding.n_ranks
