"""Dropout from random bytes.

PyTorch's CPU dropout generates one floating-point number per element, at eight times the cost
(bench/training_operations.py). One random byte is enough: an element is dropped when its byte is below round(256 p).
The rate is therefore a multiple of 1/256 (p = 0.1 becomes 26/256 = 0.1016), and the other elements are scaled by that
exact rate, so the expectation is unchanged. The bytes come from torch's own generator: the same seed gives the same
masks.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

LEVELS = 256


def byte_threshold(p: float) -> int:
    """The byte below which an element is dropped, for a dropout probability p: the nearest of 256 levels.

    The result is from 1 to 255 if p > 0: some elements are dropped and some are not.
    """
    if not 0 <= p <= 1:
        raise ValueError(f"a dropout probability must be from 0 to 1, not {p}")
    return min(max(round(p * LEVELS), 1), LEVELS - 1) if p > 0 else 0


def inverse_keep_rate(p: float) -> float:
    """The factor of the elements that are not dropped."""
    return LEVELS / (LEVELS - byte_threshold(p))


class Dropout(nn.Module):
    """Zero each element with probability p and scale the others by 1 / (1 − p), while training."""

    def __init__(self, p: float) -> None:
        super().__init__()
        byte_threshold(p)  # checks it
        self.p = p

    @property
    def rate(self) -> float:
        """The exact probability, a multiple of 1/256."""
        return byte_threshold(self.p) / LEVELS

    @property
    def active_p(self) -> float:
        """The probability in the current mode: 0 in evaluation."""
        return self.p if self.training else 0.0

    def forward(self, x: Tensor) -> Tensor:
        if self.active_p == 0:
            return x
        return _ByteDropout.apply(x, self.p)  # type: ignore[no-untyped-call,no-any-return]

    def extra_repr(self) -> str:
        return f"p={byte_threshold(self.p)}/{LEVELS}"


def random_bytes(count: int, device: torch.device) -> Tensor:
    """`count` uniform bytes, generated eight at a time."""
    words = torch.empty((count + 7) // 8, dtype=torch.int64, device=device)
    words.random_(-(2**63), None)
    return words.view(torch.uint8)[:count]


class _ByteDropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, p: float) -> Tensor:
        keep = random_bytes(x.numel(), x.device)
        # Bytes of 0 or 1: several times faster to multiply by than booleans, and faster than `torch.where`.
        keep = torch.ge(keep, byte_threshold(p), out=keep).view(x.shape)
        ctx.save_for_backward(keep)
        ctx.scale = inverse_keep_rate(p)
        return (x * keep).mul_(ctx.scale)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (keep,) = ctx.saved_tensors
        return (grad * keep).mul_(ctx.scale), None
