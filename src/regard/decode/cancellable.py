"""A model for the searches in Python that ends a search when it is cancelled.

Shapes: R rows, V vocabulary, B sentences, L target length, M source length.
"""

from __future__ import annotations

from typing import Generic

from torch import Tensor

from regard.decode.engine_control import SearchControl
from regard.decode.protocols import SearchModel, State


class Cancellable(Generic[State]):
    """The model; every step raises SearchCancelled once `control` is cancelled."""

    def __init__(self, model: SearchModel[State], control: SearchControl) -> None:
        self.model, self.control = model, control

    @property
    def longest_target(self) -> int | None:
        return self.model.longest_target

    def begin(self, src_BM: Tensor, max_length: int) -> State:
        self.control.check()
        return self.model.begin(src_BM, max_length)

    def step(self, tokens_R: Tensor, state: State) -> Tensor:
        self.control.check()
        return self.model.step(tokens_R, state)

    def __call__(self, src_BM: Tensor, tgt_BL: Tensor) -> Tensor:
        return self.model(src_BM, tgt_BL)
