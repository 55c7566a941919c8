"""A matrix that is multiplied with at every step of a recurrence.

Left alone, autograd forms the matrix's gradient at each step, as large as the matrix itself, and adds them up in the
precision of the computation: in bf16 each addition rounds, and in large models the memory traffic shows. Here each
step leaves its two factors behind, and one product after the last of them is the whole gradient, summed as exactly as
any other product.

Shapes: N rows of a step, D in, G out; or B batch, one such matrix each.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

Factors = list[tuple[Tensor, Tensor]]


class Repeated:
    """y = x M, again and again: x_ND and M_DG, or x_BND and M_BDG. One object serves one pass forward and back."""

    def __init__(self, matrix: Tensor) -> None:
        self.factors: Factors = []
        self.learning = torch.is_grad_enabled() and matrix.requires_grad
        self.matrix: Tensor = _Collect.apply(matrix, self.factors) if self.learning else matrix  # type: ignore[no-untyped-call]

    def __call__(self, x: Tensor) -> Tensor:
        if not self.learning:
            return x @ self.matrix
        return _Multiply.apply(x, self.matrix, self.factors)  # type: ignore[no-untyped-call, no-any-return]


class _Collect(torch.autograd.Function):
    """The matrix as it is. Its backward comes after those of all the steps."""

    @staticmethod
    def forward(ctx: Any, matrix: Tensor, factors: Factors) -> Tensor:
        ctx.factors = factors
        ctx.set_materialize_grads(False)
        return matrix.view_as(matrix)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor | None) -> tuple[Tensor | None, None]:
        """`grad` is what comes from uses of the matrix other than the steps: usually nothing."""
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
