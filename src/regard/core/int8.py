"""Matrix products of a training step in int8, which CPUs with VNNI multiply twice as fast as bf16.

All three products of a linear layer are in int8: y = x Wᵀ, and the gradients by x and by W. Each factor is quantised
just before the product, with one scale per row (or column) along which the product sums; sums are exact; weights,
gradients and everything between products keep their precision. Gradients are stochastically rounded, so that their mean
is unbiased. As in torchao's int8 training (Thien Tran, 2024) and SwitchBack (Wortsman et al. 2023), which computes the
gradient by W in 16 bits.

The kernels are in gemm.h and gemm_pack.h. Without them, or where they do not fit, linear.py computes the product in
the input's dtype (`reason_against` returns the reason).

Shapes: N rows, I inputs, O outputs.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from regard.kernels.loader import NoKernelsError, library, load
from regard.kernels.training import SUFFIXES, TRAINING, PackedMatrix, address_of, kernel, random_seed

LANES, PER_WORD = 16, 4  # lines per panel, bytes per word
FEWEST = 64  # rows: for fewer, packing the weights takes longer than it saves
LONGEST = 2**16  # terms of a sum: with products up to 255 · 127, more might overflow 32 bits


def reason_against(device: torch.device) -> str | None:
    """Why int8 is not available on this device, or None."""
    if device.type != "cpu":
        return f"int8 products need a CPU, and this is {device.type}"
    try:
        load(TRAINING)
    except NoKernelsError as error:
        return f"the C++ kernels are not available: {error}"
    return None


def fits(x: Tensor, weight_OI: Tensor) -> bool:
    """Whether the kernels support this product."""
    rows = x.numel() // x.shape[-1]
    return (
        x.device.type == "cpu"
        and x.dtype in SUFFIXES
        and weight_OI.dtype == torch.float32
        and FEWEST <= rows <= LONGEST
        and max(weight_OI.shape) <= LONGEST
        and library(TRAINING) is not None
    )


class Int8Mixin:
    """A module whose matrix products are in int8 during training, after `use_int8`."""

    int8 = False
    training: bool

    @property
    def in_int8(self) -> bool:
        return self.int8 and self.training


def use_int8(model: nn.Module) -> None:
    """Train in int8 all modules of a model that support it."""
    for module in model.modules():
        if isinstance(module, Int8Mixin):
            module.int8 = True


@dataclass(frozen=True)
class Packed:
    """A quantised matrix: one line per row or per column, each `length` numbers long."""

    words: Tensor
    scales: Tensor
    totals: Tensor
    lines: int
    length: int

    @classmethod
    def empty(cls, lines: int, length: int) -> Packed:
        padded, depth = -(-lines // LANES) * LANES, -(-length // PER_WORD)
        totals = torch.empty(padded, dtype=torch.int32)
        return cls(torch.empty(padded * depth, dtype=torch.int32), torch.empty(padded), totals, lines, length)

    @property
    def tensors(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.words, self.scales, self.totals

    def call(self) -> Any:
        words, totals = (address_of(tensor, torch.int32) for tensor in (self.words, self.totals))
        scales = address_of(self.scales, torch.float32)
        return ctypes.byref(PackedMatrix(words, scales, totals, self.lines, self.length))


@dataclass(frozen=True)
class Columns:
    """Statistics of a matrix's columns, found while packing its rows."""

    largest: Tensor  # magnitudes, as the bits of float32
    sums: Tensor | None


def pack_rows(matrix: Tensor, left: bool, seed: int = 0, sums: bool = False) -> tuple[Packed, Columns]:
    """Pack for a product that sums along the rows. `left`: as its left factor. A seed of 0 rounds to nearest."""
    rows, size = matrix.shape
    packed = Packed.empty(rows, size)
    columns = Columns(torch.empty(size, dtype=torch.int32), torch.empty(size) if sums else None)
    kernel("pack_rows", matrix.dtype)(matrix, left, seed, packed.call(), columns.largest, columns.sums)
    return packed, columns


def pack_columns(matrix: Tensor, columns: Columns, left: bool, seed: int = 0) -> Packed:
    """Pack for a product that sums along the columns."""
    rows, size = matrix.shape
    packed = Packed.empty(size, rows)
    kernel("pack_columns", matrix.dtype)(matrix, left, seed, packed.call(), columns.largest)
    return packed


def multiply(left: Packed, right: Packed, dtype: torch.dtype, bias: Tensor | None = None) -> Tensor:
    """[left.lines, right.lines]: the dot product of every line of one with every line of the other."""
    out = torch.empty(left.lines, right.lines, dtype=dtype)
    _multiply(left, right, bias, out, add=False)
    return out


def multiply_onto(out: Tensor, left: Packed, right: Packed) -> None:
    """out += left · right."""
    _multiply(left, right, None, out, add=True)


def _multiply(left: Packed, right: Packed, bias: Tensor | None, out: Tensor, add: bool) -> None:
    assert left.length == right.length
    assert out.shape == (left.lines, right.lines)
    kernel("multiply_packed", out.dtype)(left.call(), right.call(), bias, add, out)


def int8_linear(x: Tensor, weight_OI: Tensor, bias_O: Tensor | None) -> Tensor:
    """x Wᵀ + b, for tensors that `fits` accepts."""
    return _Int8Linear.apply(x, weight_OI, bias_O)  # type: ignore[no-untyped-call, no-any-return]


class _Int8Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight_OI: Tensor, bias_O: Tensor | None) -> Tensor:
        x_NI, weight_OI = x.reshape(-1, x.shape[-1]).contiguous(), weight_OI.contiguous()
        left, x_columns = pack_rows(x_NI, left=True)
        right, weight_columns = pack_rows(weight_OI, left=False)
        out_NO = multiply(left, right, x.dtype, bias_O)
        packed_x = pack_columns(x_NI, x_columns, left=False)  # for the gradient by W: half the memory of x in bf16
        ctx.save_for_backward(weight_OI, weight_columns.largest, *packed_x.tensors)
        ctx.shape, ctx.rows = x.shape, len(x_NI)
        return out_NO.view(*x.shape[:-1], -1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        weight_OI, weight_largest, words, scales, totals = ctx.saved_tensors
        outputs, inputs = weight_OI.shape
        by_x, by_weight, by_bias = ctx.needs_input_grad
        grad_NO = grad.reshape(-1, outputs).contiguous()
        left, grad_columns = pack_rows(grad_NO, left=True, seed=random_seed() | 1, sums=by_bias)
        grad_x = grad_weight = None
        if by_x:
            right = pack_columns(weight_OI, Columns(weight_largest, None), left=False)
            grad_x = multiply(left, right, grad.dtype).view(ctx.shape)
        if by_weight:
            left = pack_columns(grad_NO, grad_columns, left=True, seed=random_seed() | 1)
            grad_weight = multiply(left, Packed(words, scales, totals, inputs, ctx.rows), weight_OI.dtype)
        return grad_x, grad_weight, grad_columns.sums
