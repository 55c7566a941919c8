"""Add & norm (the paper, section 3.1): the residual connection, dropout and norm around every sublayer.

In training these steps are memory-bound. The C++ kernel does them in one pass over each row, forward and backward, and
computes its dropout mask from a counter instead of storing it. If a tap in between has a hook, PyTorch computes them
one by one.

Shapes: ...D in, ...D out.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from regard.config import NormKind, NormOrder
from regard.core.dropout import Dropout, byte_threshold
from regard.core.norms import LayerNorm, build_norm
from regard.core.taps import Tap
from regard.kernels.loader import library
from regard.kernels.training import SUFFIXES, TRAINING, kernel, random_seed


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
        """The sublayer's input."""
        return self.normed(self.norm(x)) if self.pre else x

    def after(self, x: Tensor, change: Tensor) -> Tensor:
        """The output, given the sublayer's output `change`."""
        if self.can_fuse(x, change):
            p = self.dropout.p if self.training else 0.0
            return _AddNorm.apply(x, change, self.norm.weight, self.norm.bias, self.norm.eps, p)  # type: ignore[no-untyped-call, no-any-return]
        x = self.resid(x + self.dropout(change))
        return x if self.pre else self.normed(self.norm(x))

    def can_fuse(self, x: Tensor, change: Tensor) -> bool:
        """Whether it is post-norm with LayerNorm in float32 or bf16 on the CPU, and no tap in between has a hook.

        An intervention may have replaced `change` by anything that can be added to x; the kernel needs equal shapes.
        """
        if self.pre or not isinstance(self.norm, LayerNorm) or self.resid.hooked or self.normed.hooked:
            return False
        alike = change.shape == x.shape and change.dtype == x.dtype and change.device == x.device
        fits = x.device.type == "cpu" and x.dtype in SUFFIXES and self.norm.weight.dtype == torch.float32
        return alike and fits and library(TRAINING) is not None


class _AddNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, change: Tensor, gain: Tensor, bias: Tensor, eps: float, p: float) -> Tensor:
        x, change = x.contiguous(), change.contiguous()
        rows, size = x.numel() // x.shape[-1], x.shape[-1]
        threshold = byte_threshold(p)
        seed = random_seed() if threshold else 0
        resid, normed = torch.empty_like(x), torch.empty_like(x)
        means, rates = torch.empty(2, rows).unbind()
        kernel("add_norm", x.dtype)(
            *(x, change, gain, bias, eps, threshold, seed),
            *(resid, normed, means, rates, rows, size),
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
            *(grad, resid, gain, means, rates, ctx.threshold, ctx.seed),
            *(grad_x, grad_change, grad_gain, grad_bias, rows, size),
        )
        return grad_x, grad_change, grad_gain, grad_bias, None, None
