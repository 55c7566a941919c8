"""What a decoder remembers between steps: the keys and values of one attention, and of all of them.

Shapes: R rows (sentences or hypotheses), H heads, T room for tokens, M memory length, K head size.
"""

from __future__ import annotations

import torch
from torch import Tensor


class GrowingCache:
    """Self-attention: room for the longest output is taken once, and each step writes its place."""

    def __init__(self, n_rows: int, n_heads: int, room: int, head_size: int, like: Tensor) -> None:
        self.k_RHTK = like.new_empty(n_rows, n_heads, room, head_size)
        self.v_RHTK = torch.empty_like(self.k_RHTK)
        self.length = 0

    def append(self, k_RHLK: Tensor, v_RHLK: Tensor) -> tuple[Tensor, Tensor]:
        """Everything remembered so far, the new keys and values among it."""
        end = self.length + k_RHLK.shape[2]
        if end > self.k_RHTK.shape[2]:  # the assignment below would drop a single token without a word
            raise ValueError(f"{end} tokens, but this cache has room for only {self.k_RHTK.shape[2]}")
        self.k_RHTK[:, :, self.length : end] = k_RHLK
        self.v_RHTK[:, :, self.length : end] = v_RHLK
        self.length = end
        return self.k_RHTK[:, :, :end], self.v_RHTK[:, :, :end]

    def reorder(self, rows_R: Tensor) -> None:
        """Keep these rows in this order; only what has been written is moved."""
        self.k_RHTK, self.v_RHTK = self.moved(self.k_RHTK, rows_R), self.moved(self.v_RHTK, rows_R)

    def moved(self, old_RHTK: Tensor, rows_R: Tensor) -> Tensor:
        new_RHTK = old_RHTK.new_empty(len(rows_R), *old_RHTK.shape[1:])
        new_RHTK[:, :, : self.length] = old_RHTK[:, :, : self.length].index_select(0, rows_R)
        return new_RHTK


class FixedCache:
    """Cross-attention: the encoder's keys and values, computed once."""

    def __init__(self, k_RHMK: Tensor, v_RHMK: Tensor) -> None:
        self.k_RHMK, self.v_RHMK = k_RHMK, v_RHMK

    def reorder(self, rows_R: Tensor) -> None:
        self.k_RHMK = self.k_RHMK.index_select(0, rows_R)
        self.v_RHMK = self.v_RHMK.index_select(0, rows_R)


class DecoderCaches:
    """The caches of a search over a batch: each row a hypothesis, several of which may share a sentence."""

    def __init__(self, own: list[GrowingCache], memories: list[FixedCache], memory_mask: Tensor) -> None:
        self.own, self.memories, self.memory_mask = own, memories, memory_mask
        self.sentence_R = torch.arange(len(memory_mask), device=memory_mask.device)

    @property
    def length(self) -> int:
        return self.own[0].length

    def reorder(self, rows_R: Tensor) -> None:
        """Keep these rows in this order. Beams that change places within a sentence leave its memory alone."""
        for own in self.own:
            own.reorder(rows_R)
        sentence_R = self.sentence_R.index_select(0, rows_R)
        if not torch.equal(sentence_R, self.sentence_R):
            for memory in self.memories:
                memory.reorder(rows_R)
            self.memory_mask = self.memory_mask.index_select(0, rows_R)
            self.sentence_R = sentence_R
