"""Dropout from cheap random bits.

PyTorch's CPU dropout draws one floating-point number an element, at eight times the cost (bench/pieces.py). One
random byte decides as well: an element is dropped when its byte is below round(256 p). The rate is therefore
a multiple of 1/256 (p = 0.1 becomes 26/256 = 0.1016), and the survivors are scaled by that exact rate, so the
expectation is unchanged. The bytes come from torch's own generator: the same seed gives the same masks.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

LEVELS = 256


class Dropout(nn.Module):
    """Zero a share p of the elements and scale the rest by 1 / (1 − p), while training."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.threshold = round(p * LEVELS)
        if p > 0:  # a rate too small for a byte is rounded up rather than lost
            self.threshold = min(max(self.threshold, 1), LEVELS - 1)

    @property
    def rate(self) -> float:
        return self.threshold / LEVELS

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.threshold == 0:
            return x
        return _ByteDropout.apply(x, self.threshold)  # type: ignore[no-untyped-call,no-any-return]

    def extra_repr(self) -> str:
        return f"p={self.threshold}/{LEVELS}"


def random_bytes(count: int, device: torch.device) -> Tensor:
    """`count` uniform bytes, drawn eight at a time."""
    words = torch.empty((count + 7) // 8, dtype=torch.int64, device=device)
    words.random_(-(2**63), None)
    return words.view(torch.uint8)[:count]


class _ByteDropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, threshold: int) -> Tensor:
        keep = random_bytes(x.numel(), x.device)
        # 0 or 1 in a byte: multiplying by it is several times faster than by a boolean, or `torch.where`.
        keep = torch.ge(keep, threshold, out=keep).view(x.shape)
        ctx.save_for_backward(keep)
        ctx.scale = LEVELS / (LEVELS - threshold)
        return (x * keep).mul_(ctx.scale)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (keep,) = ctx.saved_tensors
        return (grad * keep).mul_(ctx.scale), None
