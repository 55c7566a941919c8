"""A linear layer that computes in the dtype of its input and keeps its weights in their own.

Training in bf16 keeps float32 master weights: the weight is cast at each use, and used once per step, so autograd
returns its gradient in float32, and the optimizer and the checkpoint see float32 only.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from regard.core.int8 import Int8Mixin, fits, int8_linear


class Linear(Int8Mixin, nn.Linear):
    """y = x Wᵀ + b. The model that contains it initialises it."""

    def reset_parameters(self) -> None:
        pass

    def forward(self, x: Tensor) -> Tensor:
        return linear(x, self.weight, self.bias, self.in_int8)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None, in_int8: bool = False) -> Tensor:
    if in_int8 and fits(x, weight):
        return int8_linear(x, weight, bias)
    return F.linear(x, weight.to(x.dtype), None if bias is None else bias.to(x.dtype))
