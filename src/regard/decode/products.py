"""Matrix products for translating: the weights laid out once, the activations in the form that they are fastest in.

float32 is exact. bfloat16 halves what is read and uses the matrix units. int8 quarters it: every row of a weight
matrix has its own scale, and so has every row of activations (Jacob et al. 2018, symmetric, found as they come).
Products are oneDNN's, which take the machine's best units; for a few rows of int8 the kernel in engine.cpp is several
times faster, because it does nothing but read the matrix.

Shapes: R rows (tokens), N columns out, W columns in.
"""

from __future__ import annotations

from typing import assert_never

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.decode.kernels import Kernels, Made, Rows

ZERO = 128  # the byte that stands for 0
FEW_ROWS = 8  # below this, our kernel is faster than oneDNN's (bench/pieces.py)


class Product:
    """x Wᵀ, the bias still to be added."""

    def __init__(self, weight_NW: Tensor, bias_N: Tensor | None, kernels: Kernels) -> None:
        self.bias_N = bias_N
        form = kernels.form
        self.multiply: ByteProduct | WideProduct
        match form:
            case "float32" | "bfloat16":
                self.multiply = WideProduct(weight_NW.to(getattr(torch, form)))
            case "int8":
                self.multiply = ByteProduct(weight_NW, kernels)
            case _:
                assert_never(form)

    def __call__(self, x: Rows) -> Made:
        return Made(self.multiply(x.data_RD), x.scale_R, self.bias_N)


class WideProduct:
    """float32 or bfloat16."""

    def __init__(self, weight_NW: Tensor) -> None:
        self.weight = weight_NW
        self.packed = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
        if self.packed:
            self.weight = torch.ops.mkldnn._reorder_linear_weight(weight_NW)

    def __call__(self, x_RW: Tensor) -> Tensor:
        if not self.packed:
            return F.linear(x_RW, self.weight)
        return torch.ops.mkldnn._linear_pointwise(x_RW, self.weight, None, "none", [], "")  # type: ignore[no-any-return]


class ByteProduct:
    """int8."""

    def __init__(self, weight_NW: Tensor, kernels: Kernels) -> None:
        self.kernels = kernels
        self.scale_N = (weight_NW.abs().amax(dim=1) / 127).clamp(min=1e-12)
        bytes_NW = (weight_NW / self.scale_N[:, None]).round().to(torch.int8)
        self.zero_N = torch.zeros(len(bytes_NW), dtype=torch.int64)
        self.weight = torch.ops.onednn.qlinear_prepack(bytes_NW, None)
        fits = kernels.has_int8_units and bytes_NW.shape[0] % 16 == 0 and bytes_NW.shape[1] % 4 == 0
        self.own = pack_bytes(bytes_NW) if fits else None
        self.offset_N = ZERO * bytes_NW.sum(dim=1, dtype=torch.int32)

    def __call__(self, x_RW: Tensor) -> Tensor:
        if self.own is not None and len(x_RW) < FEW_ROWS:
            return self.kernels.int8_product(x_RW, self.own, self.offset_N, self.scale_N)
        weight = (self.weight, self.scale_N, self.zero_N)
        how = (None, 1.0, 0, torch.float32, "none", (), "")  # no bias, no scale, no zero point, and nothing after
        return torch.ops.onednn.qlinear_pointwise(x_RW, 1.0, ZERO, *weight, *how)  # type: ignore[no-any-return]


def pack_bytes(bytes_NW: Tensor) -> Tensor:
    """[columns / 16][width / 4][16][4]: what one instruction takes stands together."""
    columns, width = bytes_NW.shape
    return bytes_NW.view(columns // 16, 16, width // 4, 4).transpose(1, 2).contiguous()
