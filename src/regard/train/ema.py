"""Exponential moving average (EMA) of the weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class MovingAverage:
    """average ← decay · average + (1 − decay) · weights, with a smaller decay in the first steps."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.averages = {name: p.detach().clone() for name, p in model.named_parameters()}

    @torch.no_grad()
    def update(self, model: nn.Module, step: int) -> None:
        decay = min(self.decay, (1 + step) / (10 + step))
        for name, parameter in model.named_parameters():
            self.averages[name].lerp_(parameter, 1 - decay)

    def restore(self, averages: Mapping[str, Tensor]) -> None:
        for name, value in averages.items():
            self.averages[name].copy_(value)

    @contextmanager
    def applied(self, model: nn.Module) -> Iterator[None]:
        """Use the averaged weights in the model within the block."""
        own = {name: p.data for name, p in model.named_parameters()}
        try:
            for name, parameter in model.named_parameters():
                parameter.data = self.averages[name]
            yield
        finally:
            for name, parameter in model.named_parameters():
                parameter.data = own[name]
