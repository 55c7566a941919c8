"""A model that writes some tokens only: to a search, there are no others, and probabilities are among these.

An engine does not even compute the others (engine.py); any other model has them masked out of its logits, which gives
the same search. A constraint (constraints.py) is something else: it leaves the model's probabilities as they are.

Shapes: R rows, V vocabulary, B sentences, L target length, M source length.
"""

from __future__ import annotations

from typing import Any, Generic

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from regard.decode.engine import Engine
from regard.decode.protocols import SearchModel, State


def restrict(model: SearchModel[Any], allowed: npt.NDArray[np.int64]) -> SearchModel[Any]:
    """The model for a batch whose translations are made of these tokens."""
    return model.restricted(allowed) if isinstance(model, Engine) else Restricted(model, allowed)


class Restricted(Generic[State]):
    """Any model with all other tokens at -inf."""

    def __init__(self, model: SearchModel[State], allowed: npt.NDArray[np.int64]) -> None:
        self.model = model
        self.allowed = torch.from_numpy(allowed)

    @property
    def longest_target(self) -> int | None:
        return self.model.longest_target

    def begin(self, src_BM: Tensor, max_length: int) -> State:
        return self.model.begin(src_BM, max_length)

    def step(self, tokens_R: Tensor, state: State) -> Tensor:
        return self.close(self.model.step(tokens_R, state))

    def __call__(self, src_BM: Tensor, tgt_BL: Tensor) -> Tensor:
        return self.close(self.model(src_BM, tgt_BL))

    def close(self, logits: Tensor) -> Tensor:
        closed_V = torch.ones(logits.shape[-1], dtype=torch.bool, device=logits.device)
        closed_V[self.allowed.to(logits.device)] = False
        return logits.masked_fill(closed_V, -torch.inf)
