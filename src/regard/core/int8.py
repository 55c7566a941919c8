"""Matrix products of a training step in int8, where the processor multiplies bytes twice as fast as bf16 numbers.

All three products of a linear map: y = x Wᵀ, and backwards by x and by W. Each factor becomes bytes as it comes, with a
scale for every row (or column) of it along which the product adds up; sums are exact; weights, gradients and everything
between products keep their precision. Gradients are rounded by chance, so that their mean is right. As in torchao's
int8 training (Thien Tran, 2024), and SwitchBack (Wortsman et al. 2023), which takes the product by W in 16 bits.

The work is done by int8.h. There is no twin in PyTorch: without kernels there is no int8 (`reason_against`).

Shapes: N rows, I inputs, O outputs.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from regard.kernels.loader import SUFFIXES, NoKernelsError, draw_seed, kernel, library, load, pointer

LANES, PER_WORD = 16, 4  # lines of a panel, bytes of a word
FEWEST = 64  # rows: for fewer it does not pay to pack the weights
LONGEST = 2**16  # numbers in a sum: of products up to 255 · 127, more might not fit into 32 bits


def reason_against(device: torch.device) -> str | None:
    """Why there is no int8 here, or None."""
    if device.type != "cpu":
        return f"the products in int8 are for a CPU, and this is {device.type}"
    try:
        load()
    except NoKernelsError as error:
        return f"the kernels cannot be had: {error}"
    return None


def fits(x: Tensor, weight_OI: Tensor) -> bool:
    """Whether the kernels take a product of these."""
    rows = x.numel() // x.shape[-1]
    return (
        x.device.type == "cpu"
        and x.dtype in SUFFIXES
        and weight_OI.dtype == torch.float32
        and FEWEST <= rows <= LONGEST
        and max(weight_OI.shape) <= LONGEST
        and library() is not None
    )


class Int8Mixin:
    """A part with a matrix whose products are taken in int8 while it is trained, if somebody says so."""

    int8 = False
    training: bool

    @property
    def in_int8(self) -> bool:
        return self.int8 and self.training


def use_int8(model: nn.Module) -> None:
    """Say so for all parts of a model."""
    for module in model.modules():
        if isinstance(module, Int8Mixin):
            module.int8 = True


class _Call(ctypes.Structure):
    """`Packed` of int8.h."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("words", "scale", "total")),
        *((name, ctypes.c_int64) for name in ("lines", "length")),
    )


@dataclass(frozen=True)
class Packed:
    """A matrix as bytes: a line for each of its rows or columns, `length` numbers long."""

    words: Tensor
    scales: Tensor
    totals: Tensor
    lines: int
    length: int

    @classmethod
    def room(cls, lines: int, length: int) -> Packed:
        padded, depth = -(-lines // LANES) * LANES, -(-length // PER_WORD)
        totals = torch.empty(padded, dtype=torch.int32)
        return cls(torch.empty(padded * depth, dtype=torch.int32), torch.empty(padded), totals, lines, length)

    @property
    def tensors(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.words, self.scales, self.totals

    def call(self) -> Any:
        places = (tensor.data_ptr() for tensor in self.tensors)
        return ctypes.byref(_Call(*places, self.lines, self.length))


@dataclass(frozen=True)
class Columns:
    """What packing a matrix by its rows learns of its columns."""

    most: Tensor  # the largest magnitudes, as the bits of float32
    sums: Tensor | None


def pack_rows(matrix: Tensor, left: bool, seed: int = 0, sums: bool = False) -> tuple[Packed, Columns]:
    """For a product that adds up along the rows. `left`: which factor it will be. A seed of 0 rounds to the nearest."""
    rows, size = matrix.shape
    packed = Packed.room(rows, size)
    columns = Columns(torch.empty(size, dtype=torch.int32), torch.empty(size) if sums else None)
    kernel("pack_rows", matrix.dtype)(
        *(pointer(matrix), ctypes.c_bool(left), ctypes.c_uint64(seed), packed.call(), pointer(columns.most)),
        None if columns.sums is None else pointer(columns.sums),
    )
    return packed, columns


def pack_columns(matrix: Tensor, columns: Columns, left: bool, seed: int = 0) -> Packed:
    """For a product that adds up along the columns."""
    rows, size = matrix.shape
    packed = Packed.room(size, rows)
    kernel("pack_columns", matrix.dtype)(
        *(pointer(matrix), ctypes.c_bool(left), ctypes.c_uint64(seed), packed.call(), pointer(columns.most)),
    )
    return packed


def multiply(left: Packed, right: Packed, dtype: torch.dtype, bias: Tensor | None = None) -> Tensor:
    """[left.lines, right.lines]: every line of one by every line of the other."""
    out = torch.empty(left.lines, right.lines, dtype=dtype)
    _multiply(left, right, bias, out, add=False)
    return out


def multiply_onto(out: Tensor, left: Packed, right: Packed) -> None:
    """The same, added to what is there."""
    _multiply(left, right, None, out, add=True)


def _multiply(left: Packed, right: Packed, bias: Tensor | None, out: Tensor, add: bool) -> None:
    assert left.length == right.length
    assert out.shape == (left.lines, right.lines)
    kernel("multiply_packed", out.dtype)(
        *(left.call(), right.call(), None if bias is None else pointer(bias), ctypes.c_bool(add), pointer(out)),
    )


def int8_linear(x: Tensor, weight_OI: Tensor, bias_O: Tensor | None) -> Tensor:
    """x Wᵀ + b, for what `fits`."""
    return _Int8Linear.apply(x, weight_OI, bias_O)  # type: ignore[no-untyped-call, no-any-return]


class _Int8Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight_OI: Tensor, bias_O: Tensor | None) -> Tensor:
        x_NI, weight_OI = x.reshape(-1, x.shape[-1]).contiguous(), weight_OI.contiguous()
        left, x_columns = pack_rows(x_NI, left=True)
        right, weight_columns = pack_rows(weight_OI, left=False)
        out_NO = multiply(left, right, x.dtype, bias_O)
        kept = pack_columns(x_NI, x_columns, left=False)  # for the product by W: half of what x takes in bf16
        ctx.save_for_backward(weight_OI, weight_columns.most, *kept.tensors)
        ctx.shape, ctx.rows = x.shape, len(x_NI)
        return out_NO.view(*x.shape[:-1], -1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        weight_OI, weight_most, words, scales, totals = ctx.saved_tensors
        outputs, inputs = weight_OI.shape
        by_x, by_weight, by_bias = ctx.needs_input_grad
        grad_NO = grad.reshape(-1, outputs).contiguous()
        left, grad_columns = pack_rows(grad_NO, left=True, seed=draw_seed() | 1, sums=by_bias)
        grad_x = grad_weight = None
        if by_x:
            right = pack_columns(weight_OI, Columns(weight_most, None), left=False)
            grad_x = multiply(left, right, grad.dtype).view(ctx.shape)
        if by_weight:
            left = pack_columns(grad_NO, grad_columns, left=True, seed=draw_seed() | 1)
            grad_weight = multiply(left, Packed(words, scales, totals, inputs, ctx.rows), weight_OI.dtype)
        return grad_x, grad_weight, grad_columns.sums
