"""Add & norm (the paper, section 3.1): what surrounds every sublayer.

In training these are the steps that touch memory most and compute least: an addition, a dropout, two statistics.
The C++ kernel does them in one pass over each row, forward and backward, and draws its dropout from a counter
instead of keeping a mask. Wherever somebody listens, the steps are taken one by one.

Shapes: ...D in, ...D out.
"""

from __future__ import annotations

import ctypes
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from regard.config import NormKind, NormOrder
from regard.core.dropout import Dropout
from regard.core.norms import LayerNorm, build_norm
from regard.core.taps import Tap
from regard.kernels.loader import SUFFIXES, draw_seed, kernel, library, pointer


class Residual(nn.Module):
    """post: norm(x + dropout(f(x))), the paper's.   pre: x + dropout(f(norm(x)))."""

    def __init__(
        self, d_model: int, order: NormOrder, norm: NormKind, dropout: float, eps: float | None = None
    ) -> None:
        super().__init__()
        self.pre = order == "pre"
        self.norm = build_norm(norm, d_model, eps)
        self.dropout = Dropout(dropout)
        self.resid, self.normed = Tap(), Tap()

    def before(self, x: Tensor) -> Tensor:
        """What the sublayer sees."""
        return self.normed(self.norm(x)) if self.pre else x

    def after(self, x: Tensor, change: Tensor) -> Tensor:
        """What goes on, given what the sublayer made of it."""
        if self.can_fuse(x, change):
            threshold = self.dropout.threshold if self.training else 0
            return _AddNorm.apply(x, change, self.norm.weight, self.norm.bias, self.norm.eps, threshold)  # type: ignore[no-untyped-call, no-any-return]
        x = self.resid(x + self.dropout(change))
        return x if self.pre else self.normed(self.norm(x))

    def can_fuse(self, x: Tensor, change: Tensor) -> bool:
        """Post-norm with LayerNorm in float32 or bf16 on the CPU, and nobody looking in between.

        A listener elsewhere may have made `change` anything that can be added to x; the kernel takes its like only.
        """
        if self.pre or not isinstance(self.norm, LayerNorm) or self.resid.heard or self.normed.heard:
            return False
        alike = change.shape == x.shape and change.dtype == x.dtype and change.device == x.device
        fits = x.device.type == "cpu" and x.dtype in SUFFIXES and self.norm.weight.dtype == torch.float32
        return alike and fits and library() is not None


class _AddNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, change: Tensor, gain: Tensor, bias: Tensor, eps: float, threshold: int) -> Tensor:
        x, change = x.contiguous(), change.contiguous()
        rows, size = x.numel() // x.shape[-1], x.shape[-1]
        seed = draw_seed() if threshold else 0
        resid, normed = torch.empty_like(x), torch.empty_like(x)
        means, rates = torch.empty(2, rows).unbind()
        kernel("add_norm", x.dtype)(
            *map(pointer, (x, change, gain, bias)),
            *(ctypes.c_float(eps), ctypes.c_int(threshold), ctypes.c_uint64(seed)),
            *map(pointer, (resid, normed, means, rates)),
            *(ctypes.c_int64(rows), ctypes.c_int64(size)),
        )
        ctx.save_for_backward(resid, gain, means, rates)
        ctx.threshold, ctx.seed = threshold, seed
        return normed

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        resid, gain, means, rates = ctx.saved_tensors
        grad = grad.contiguous()
        rows, size = resid.numel() // resid.shape[-1], resid.shape[-1]
        grad_x, grad_change = torch.empty_like(resid), torch.empty_like(resid)
        grad_gain, grad_bias = torch.zeros(2, size).unbind()
        kernel("add_norm_backward", resid.dtype)(
            *map(pointer, (grad, resid, gain, means, rates)),
            *(ctypes.c_int(ctx.threshold), ctypes.c_uint64(ctx.seed)),
            *map(pointer, (grad_x, grad_change, grad_gain, grad_bias)),
            *(ctypes.c_int64(rows), ctypes.c_int64(size)),
        )
        return grad_x, grad_change, grad_gain, grad_bias, None, None
