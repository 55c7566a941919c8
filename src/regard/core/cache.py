"""The caches of a decoder: the keys and values of one attention, and of all of them.

Shapes: R rows (sentences or hypotheses), H heads, T capacity in tokens, M memory length, K head size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor


class GrowingCache:
    """Keys and values of self-attention. Memory for the longest output is allocated once; each step writes a part."""

    def __init__(self, n_rows: int, n_heads: int, capacity: int, head_size: int, like: Tensor) -> None:
        self.k_RHTK = like.new_empty(n_rows, n_heads, capacity, head_size)
        self.v_RHTK = torch.empty_like(self.k_RHTK)
        self.length = 0

    def append(self, k_RHLK: Tensor, v_RHLK: Tensor) -> tuple[Tensor, Tensor]:
        """All keys and values so far, including the new ones."""
        end = self.length + k_RHLK.shape[2]
        if end > self.k_RHTK.shape[2]:  # the assignment below would drop a single token without an error
            raise ValueError(f"{end} tokens, but this cache has room for only {self.k_RHTK.shape[2]}")
        self.k_RHTK[:, :, self.length : end] = k_RHLK
        self.v_RHTK[:, :, self.length : end] = v_RHLK
        self.length = end
        return self.k_RHTK[:, :, :end], self.v_RHTK[:, :, :end]

    def reorder(self, rows_R: Tensor) -> None:
        """Select these rows, in this order; only what has been written is copied."""
        self.k_RHTK, self.v_RHTK = self.reordered(self.k_RHTK, rows_R), self.reordered(self.v_RHTK, rows_R)

    def reordered(self, old_RHTK: Tensor, rows_R: Tensor) -> Tensor:
        new_RHTK = old_RHTK.new_empty(len(rows_R), *old_RHTK.shape[1:])
        new_RHTK[:, :, : self.length] = old_RHTK[:, :, : self.length].index_select(0, rows_R)
        return new_RHTK


Needed = Callable[[Tensor, int], Tensor]  # positions_M, length → whether a token at `length` or later needs them


class PrunedCache:
    """Self-attention that does not see all of the past: what no later token needs is dropped.

    Memory is taken for twice what is needed, so that tokens are dropped in bulk.
    """

    def __init__(self, n_rows: int, n_heads: int, capacity: int, head_size: int, like: Tensor, needed: Needed) -> None:
        self.capacity, self.needed, self.length = capacity, needed, 0
        self.k_RHTK = like.new_empty(n_rows, n_heads, 0, head_size)
        self.v_RHTK = torch.empty_like(self.k_RHTK)
        self.held_T = torch.empty(0, dtype=torch.int64, device=like.device)  # the positions of what is held
        self.positions_M = self.held_T  # those of what `append` returned last

    def append(self, k_RHLK: Tensor, v_RHLK: Tensor) -> tuple[Tensor, Tensor]:
        """What is held, the new keys and values behind it; `positions_M` says where in the text each is."""
        end = self.length + k_RHLK.shape[2]
        if end > self.capacity:
            raise ValueError(f"{end} tokens, but this cache has room for only {self.capacity}")
        new_L = torch.arange(self.length, end, device=self.held_T.device)
        held = len(self.held_T)
        self.positions_M, self.length = torch.cat([self.held_T, new_L]), end
        if held + len(new_L) <= self.k_RHTK.shape[2]:
            self.held_T = self.positions_M
            rows = slice(held, held + len(new_L))
            self.k_RHTK[:, :, rows], self.v_RHTK[:, :, rows] = k_RHLK, v_RHLK
            return self.k_RHTK[:, :, : rows.stop], self.v_RHTK[:, :, : rows.stop]
        k_RHMK = torch.cat([self.k_RHTK[:, :, :held], k_RHLK], dim=2)
        v_RHMK = torch.cat([self.v_RHTK[:, :, :held], v_RHLK], dim=2)
        kept = self.needed(self.positions_M, end).nonzero().squeeze(1)
        self.held_T = self.positions_M[kept]
        self.k_RHTK, self.v_RHTK = self.moved(k_RHMK, kept), self.moved(v_RHMK, kept)
        return k_RHMK, v_RHMK

    def moved(self, x_RHMK: Tensor, kept: Tensor) -> Tensor:
        """What is kept, with as much room again behind it."""
        R, H, _, K = x_RHMK.shape
        new_RHTK = x_RHMK.new_empty(R, H, 2 * len(kept) + 1, K)
        new_RHTK[:, :, : len(kept)] = x_RHMK.index_select(2, kept)
        return new_RHTK

    def reorder(self, rows_R: Tensor) -> None:
        """Keep these rows in this order."""
        self.k_RHTK, self.v_RHTK = (x.index_select(0, rows_R) for x in (self.k_RHTK, self.v_RHTK))


class FixedCache:
    """Keys and values of cross-attention: those of the encoder's output, computed once."""

    def __init__(self, k_RHMK: Tensor, v_RHMK: Tensor) -> None:
        self.k_RHMK, self.v_RHMK = k_RHMK, v_RHMK

    def reorder(self, rows_R: Tensor) -> None:
        self.k_RHMK = self.k_RHMK.index_select(0, rows_R)
        self.v_RHMK = self.v_RHMK.index_select(0, rows_R)


class DecoderCaches:
    """The caches of a search over a batch: each row is a hypothesis, and several may belong to one sentence."""

    def __init__(
        self, own: Sequence[GrowingCache | PrunedCache], memories: list[FixedCache], memory_mask: Tensor
    ) -> None:
        self.own, self.memories, self.memory_mask = list(own), memories, memory_mask
        self.sentence_R = torch.arange(len(memory_mask), device=memory_mask.device)

    @property
    def length(self) -> int:
        return self.own[0].length

    def reorder(self, rows_R: Tensor) -> None:
        """Select these rows, in this order. The memories are not copied if every row stays in its sentence."""
        for own in self.own:
            own.reorder(rows_R)
        sentence_R = self.sentence_R.index_select(0, rows_R)
        if not torch.equal(sentence_R, self.sentence_R):
            for memory in self.memories:
                memory.reorder(rows_R)
            self.memory_mask = self.memory_mask.index_select(0, rows_R)
            self.sentence_R = sentence_R
