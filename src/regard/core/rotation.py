"""Queries and keys turned by rotary positions in C++: one pass over memory, and one back.

It reads the heads where the projection left them and writes them row by row. The PyTorch twin is `rotate_plainly` of
positions.py.

Shapes: B batch, L length, H heads, K head size; a place has K / 2 angles.
"""

from __future__ import annotations

import ctypes
from typing import Any

from torch import Tensor
from torch.autograd.function import Function, once_differentiable

from regard.kernels.loader import SUFFIXES, Strided, head_rows, kernel, library, pointer


class _Call(ctypes.Structure):
    """`RotationCall` of native.cpp."""

    _fields_ = (
        ("x", Strided),
        *((name, ctypes.c_int64) for name in ("sentences", "heads", "rows", "size")),
        *((name, ctypes.c_void_p) for name in ("cos", "sin")),
    )


def fits(x_BHLK: Tensor) -> bool:
    """Whether the kernel can take it: on the CPU, each head's numbers together."""
    return x_BHLK.device.type == "cpu" and x_BHLK.dtype in SUFFIXES and x_BHLK.stride(3) == 1 and library() is not None


def rotate(x_BHLK: Tensor, cos_LK: Tensor, sin_LK: Tensor) -> Tensor:
    """Every head turned by the angles of its place, whose cosines and sines are float32."""
    return _Rotation.apply(x_BHLK, cos_LK, sin_LK)  # type: ignore[no-any-return, no-untyped-call]


def _turned(x_BHLK: Tensor, cos_LK: Tensor, sin_LK: Tensor) -> Tensor:
    B, H, L, K = x_BHLK.shape
    out_BLHK = x_BHLK.new_empty(B, L, H, K)
    call = _Call(head_rows(x_BHLK), B, H, L, K, pointer(cos_LK), pointer(sin_LK))
    kernel("rotate", x_BHLK.dtype)(ctypes.byref(call), pointer(out_BLHK))
    return out_BLHK.transpose(1, 2)


class _Rotation(Function):
    @staticmethod
    def forward(ctx: Any, x_BHLK: Tensor, cos_LK: Tensor, sin_LK: Tensor) -> Tensor:
        ctx.save_for_backward(cos_LK, sin_LK)
        return _turned(x_BHLK, cos_LK, sin_LK)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_BHLK: Tensor) -> tuple[Tensor, None, None]:
        """A turn's transpose is the turn back."""
        cos_LK, sin_LK = ctx.saved_tensors
        return _turned(grad_BHLK if fits(grad_BHLK) else grad_BHLK.contiguous(), cos_LK, -sin_LK), None, None
