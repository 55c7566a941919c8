"""The interface of a model for search: encode once, then one step at a time, with a state that can be reordered.

Any model with these methods can be searched: a Transformer's state holds keys and values, a recurrent model's its
hidden vectors.

Shapes: B sentences, R rows = active hypotheses, V vocabulary, L target length, M source length.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

import torch
from torch import Tensor

from regard.decode.checks import check_lengths
from regard.tokenizers.special_ids import PAD


class SearchState(Protocol):
    """What a model stores per row between two steps."""

    def reorder(self, rows_R: Tensor) -> None:
        """Select these rows, in this order; a row may occur several times or not at all."""


State = TypeVar("State", bound=SearchState)


class SearchModel(Protocol[State]):
    """A model that gives the next token's logits, step by step or for a whole given target."""

    @property
    def longest_target(self) -> int | None:
        """The maximum target length in tokens; None: no limit."""
        ...

    def begin(self, src_BM: Tensor, max_length: int) -> State:
        """Encode right-padded sources, with room for `max_length` target tokens; one row per sentence."""
        ...

    def step(self, tokens_R: Tensor, state: State) -> Tensor:
        """Feed one token per row (BOS first), advance the state, return logits_RV of the next token."""
        ...

    def __call__(self, src_BM: Tensor, tgt_BL: Tensor) -> Tensor:
        """Logits_BLV of the token after each of `tgt_BL` (BOS first)."""
        ...


def list_lengths(max_lengths: Tensor | Sequence[int], sentences: int) -> list[int]:
    """The maximum lengths, one per sentence."""
    lengths: list[int] = max_lengths.tolist() if isinstance(max_lengths, Tensor) else list(max_lengths)
    check_lengths(lengths, sentences)
    return lengths


def limit_lengths(src_BM: Tensor, ratio: float, extra: int) -> list[int]:
    """The maximum target length of each source, EOS included: ratio · its pieces (without EOS) + extra."""
    pieces_B: list[int] = (src_BM != PAD).sum(dim=1).sub(1).tolist()
    return [int(ratio * pieces) + extra for pieces in pieces_B]


def move_rows(state: SearchState, rows_R: Tensor, before: int) -> None:
    """Reorder a state of `before` rows; skipped where the order stays the same, since copying a cache is expensive."""
    if not torch.equal(rows_R, torch.arange(before, device=rows_R.device)):
        state.reorder(rows_R)
