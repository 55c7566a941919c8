"""What a search asks of a model: encode once, then one step at a time with a state that can be reordered.

Any model that offers these methods can be searched: the Transformer keeps keys and values in its state,
a recurrent model its hidden vectors. The search knows neither.

Shapes: B sentences, R rows = hypotheses alive, V vocabulary, L target length, M source length.
"""

from __future__ import annotations

from typing import Protocol, TypeVar

import torch
from torch import Tensor

from regard.tokenizers.special_ids import PAD


class SearchState(Protocol):
    """What a model remembers of each row between two steps."""

    def reorder(self, rows_R: Tensor) -> None:
        """Keep these rows, in this order; a row may be named several times or not at all."""


State = TypeVar("State", bound=SearchState)


class SearchModel(Protocol[State]):
    """A model that gives the next token's logits, step by step or for a whole given target."""

    @property
    def longest_target(self) -> int | None:
        """The most tokens a target may have; None: no limit."""
        ...

    def begin(self, src_BM: Tensor, max_length: int) -> State:
        """Encode right-padded sources, with room for `max_length` target tokens; one row per sentence."""
        ...

    def step(self, tokens_R: Tensor, state: State) -> Tensor:
        """Feed one token a row (BOS first), advance the state, return logits_RV of the next token."""
        ...

    def __call__(self, src_BM: Tensor, tgt_BL: Tensor) -> Tensor:
        """Logits_BLV of the token after each of `tgt_BL` (BOS first)."""
        ...


def limit_lengths(src_BM: Tensor, ratio: float, extra: int) -> list[int]:
    """The most target tokens, EOS among them, each source may have: ratio · its pieces (without EOS) + extra."""
    pieces_B: list[int] = (src_BM != PAD).sum(dim=1).sub(1).tolist()
    return [int(ratio * pieces) + extra for pieces in pieces_B]


def move_rows(state: SearchState, rows_R: Tensor, before: int) -> None:
    """Reorder a state of `before` rows, unless each stays where it is: a cache is dear to copy."""
    if not torch.equal(rows_R, torch.arange(before, device=rows_R.device)):
        state.reorder(rows_R)
