"""Rotary positions of queries and keys in C++: one pass over memory forward, one backward.

The kernel reads the heads from the output of the projection and writes them row by row. The PyTorch fallback is
`rotate_plainly` in positions.py.

Shapes: B batch, L length, H heads, K head size; a position has K / 2 angles.
"""

from __future__ import annotations

import ctypes
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import Function, once_differentiable

from regard.kernels.loader import library
from regard.kernels.training import SUFFIXES, TRAINING, HeadRows, RotationCall, address_of, kernel


def fits(x_BHLK: Tensor) -> bool:
    """Whether the kernel supports the tensor: on the CPU, last dimension contiguous."""
    return (
        x_BHLK.device.type == "cpu"
        and x_BHLK.dtype in SUFFIXES
        and x_BHLK.stride(3) == 1
        and library(TRAINING) is not None
    )


def rotate(x_BHLK: Tensor, cos_LK: Tensor, sin_LK: Tensor) -> Tensor:
    """Every head rotated by the angles of its position; cosines and sines are float32."""
    return _Rotation.apply(x_BHLK, cos_LK, sin_LK)  # type: ignore[no-any-return, no-untyped-call]


def _rotated(x_BHLK: Tensor, cos_LK: Tensor, sin_LK: Tensor) -> Tensor:
    B, H, L, K = x_BHLK.shape
    out_BLHK = x_BHLK.new_empty(B, L, H, K)
    angles = (address_of(table_LK, torch.float32) for table_LK in (cos_LK, sin_LK))
    call = RotationCall(HeadRows.of(x_BHLK), B, H, L, K, *angles)
    kernel("rotate", x_BHLK.dtype)(ctypes.byref(call), out_BLHK)
    return out_BLHK.transpose(1, 2)


class _Rotation(Function):
    @staticmethod
    def forward(ctx: Any, x_BHLK: Tensor, cos_LK: Tensor, sin_LK: Tensor) -> Tensor:
        ctx.save_for_backward(cos_LK, sin_LK)
        return _rotated(x_BHLK, cos_LK, sin_LK)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_BHLK: Tensor) -> tuple[Tensor, None, None]:
        """The transpose of a rotation is the rotation by the opposite angle."""
        cos_LK, sin_LK = ctx.saved_tensors
        return _rotated(grad_BHLK if fits(grad_BHLK) else grad_BHLK.contiguous(), cos_LK, -sin_LK), None, None
