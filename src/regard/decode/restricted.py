"""A model whose vocabulary is restricted to some tokens; probabilities are normalised over these.

The engine does not compute the others at all (engine.py); other models have them masked out of their logits, which
gives the same search. A constraint (constraints.py), in contrast, does not change the model's probabilities.

Shapes: R rows, V vocabulary, B sentences, L target length, M source length.
"""

from __future__ import annotations

from typing import Any, Generic

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from regard.decode.model_engine import SteppedEngine
from regard.decode.protocols import SearchModel, State


def restrict(model: SearchModel[Any], allowed: npt.NDArray[np.int64]) -> SearchModel[Any]:
    """The model, restricted to these tokens."""
    if isinstance(model, SteppedEngine):
        return SteppedEngine(model.engine.restricted(allowed))
    return Restricted(model, allowed)


class Restricted(Generic[State]):
    """A model with the logits of all other tokens at -inf."""

    def __init__(self, model: SearchModel[State], allowed: npt.NDArray[np.int64]) -> None:
        self.model = model
        self.allowed = torch.from_numpy(allowed)

    @property
    def longest_target(self) -> int | None:
        return self.model.longest_target

    def begin(self, src_BM: Tensor, max_length: int) -> State:
        return self.model.begin(src_BM, max_length)

    def step(self, tokens_R: Tensor, state: State) -> Tensor:
        return self.mask(self.model.step(tokens_R, state))

    def __call__(self, src_BM: Tensor, tgt_BL: Tensor) -> Tensor:
        return self.mask(self.model(src_BM, tgt_BL))

    def mask(self, logits: Tensor) -> Tensor:
        masked_V = torch.ones(logits.shape[-1], dtype=torch.bool, device=logits.device)
        masked_V[self.allowed.to(logits.device)] = False
        return logits.masked_fill(masked_V, -torch.inf)
