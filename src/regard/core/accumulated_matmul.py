"""Multiplication by one matrix at every step of a recurrence, with its gradient computed in one product.

By default autograd computes the gradient of the matrix at each step, as large as the matrix itself, and adds these up
in the precision of the computation: in bf16 each addition rounds, and in large models the memory traffic is noticeable.
Here each step stores its two factors, and one product after the last step gives the whole gradient, with the accuracy
of any other product.

Shapes: N rows of a step, D in, G out; or B batch, with one such matrix each.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

Factors = list[tuple[Tensor, Tensor]]


class AccumulatedMatmul:
    """y = x M, called repeatedly: x_ND and M_DG, or x_BND and M_BDG. Use one object per forward and backward pass."""

    def __init__(self, matrix: Tensor) -> None:
        self.factors: Factors = []
        self.needs_grad = torch.is_grad_enabled() and matrix.requires_grad
        self.matrix: Tensor = _Collect.apply(matrix, self.factors) if self.needs_grad else matrix  # type: ignore[no-untyped-call]

    def __call__(self, x: Tensor) -> Tensor:
        if not self.needs_grad:
            return x @ self.matrix
        return _Multiply.apply(x, self.matrix, self.factors)  # type: ignore[no-untyped-call, no-any-return]


class _Collect(torch.autograd.Function):
    """The matrix, unchanged. Its backward pass runs after those of all steps."""

    @staticmethod
    def forward(ctx: Any, matrix: Tensor, factors: Factors) -> Tensor:
        ctx.factors = factors
        ctx.set_materialize_grads(False)
        return matrix.view_as(matrix)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor | None) -> tuple[Tensor | None, None]:
        """`grad` is from uses of the matrix other than the steps: usually None."""
        if ctx.factors:
            inputs, grads = zip(*ctx.factors, strict=True)
            ctx.factors.clear()
            product = torch.cat(inputs, dim=-2).mT @ torch.cat(grads, dim=-2)
            grad = product if grad is None else grad + product
        return grad, None


class _Multiply(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, matrix: Tensor, factors: Factors) -> Tensor:
        ctx.save_for_backward(x, matrix)
        ctx.factors = factors
        return x @ matrix

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, None, None]:
        x, matrix = ctx.saved_tensors
        ctx.factors.append((x, grad))
        return (grad @ matrix.mT if ctx.needs_input_grad[0] else None), None, None
