"""The kernels of engine.cpp, each with the tensors it takes and the tensors it makes.

Shapes: R rows (tokens), D model, N columns of a product, B sentences, T longest target, C continuations of a row.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from regard.config import FeedForwardKind
from regard.core.native import library

SOURCE = Path(__file__).with_name("engine.cpp")
Form = Literal["float32", "bfloat16", "int8"]  # how activations reach a product
KEPT = {"float32": torch.float32, "bfloat16": torch.bfloat16, "int8": torch.bfloat16}  # keys and values
SEEN = {"float32": torch.float32, "bfloat16": torch.bfloat16, "int8": torch.uint8}
ACTIVATIONS: dict[FeedForwardKind, int] = {"relu": 0, "gelu": 1, "swiglu": 2}

POINTER, INTEGER, FLOAT, FLAG = ctypes.c_void_p, ctypes.c_int64, ctypes.c_float, ctypes.c_int
MADE = (POINTER, POINTER, POINTER, INTEGER)
ROWS = (POINTER, POINTER, INTEGER, INTEGER)
ARGUMENTS = {
    "add_norm": (*MADE, POINTER, POINTER, POINTER, FLOAT, FLAG, FLAG, *ROWS),
    "activate": (*MADE, FLAG, *ROWS),
    "keep": (*MADE, INTEGER, POINTER, INTEGER, INTEGER),
    "attend_sentence": (*MADE, POINTER, POINTER, POINTER, POINTER, INTEGER, FLOAT, INTEGER, *ROWS),
    "attend_past": (*MADE, POINTER, POINTER, INTEGER, INTEGER, FLOAT, INTEGER, *ROWS),
    "best": (*MADE, POINTER, INTEGER, INTEGER, POINTER, POINTER, INTEGER),
}


@dataclass(frozen=True, slots=True)
class Rows:
    """Activations on their way to a product."""

    data_RD: Tensor
    scale_R: Tensor | None  # int8 only: a value is (byte − 128) · scale


@dataclass(frozen=True, slots=True)
class Made:
    """What a product left: whoever reads it applies the scale of its row and adds the bias."""

    data_RN: Tensor
    scale_R: Tensor | None
    bias_N: Tensor | None


@dataclass(frozen=True, slots=True)
class Norm:
    gain_D: Tensor
    bias_D: Tensor | None
    eps: float
    centred: bool  # LayerNorm; RMSNorm is not

    def arguments(self) -> tuple[int | None, int | None, float, int]:
        return address(self.gain_D), address(self.bias_D), self.eps, self.centred


class Kernels:
    """The kernels for one form."""

    def __init__(self, native: ctypes.CDLL, form: Form, n_heads: int, head_size: int) -> None:
        self.form: Form = form
        self.n_heads, self.head_size, self.d_model = n_heads, head_size, n_heads * head_size
        self.function = {name: bind(native, f"regard_{name}_{form}", kinds) for name, kinds in ARGUMENTS.items()}
        self.embed_rows = bind(native, "regard_embed", (*(POINTER,) * 4, FLOAT, POINTER, INTEGER, INTEGER))
        self.multiply_bytes = bind(native, "regard_int8_product", (*(POINTER,) * 5, *(INTEGER,) * 3))
        self.has_int8_units = bool(native.regard_int8_units())

    def empty_rows(self, rows: int, width: int) -> Rows:
        scale_R = torch.empty(rows) if self.form == "int8" else None
        return Rows(torch.empty(rows, width, dtype=SEEN[self.form]), scale_R)

    def embed(self, ids_R: Tensor, table_VD: Tensor, scale: float, positions: Tensor | None, place_R: Tensor) -> Tensor:
        """x_RD = embedding · scale + position."""
        x_RD = torch.empty(len(ids_R), self.d_model)
        at = (address(ids_R), address(table_VD), address(positions), address(place_R))
        self.embed_rows(*at, scale, address(x_RD), *x_RD.shape)
        return x_RD

    def add_norm(self, change: Made | None, x_RD: Tensor, norm: Norm | None, post: bool) -> Rows:
        """Add `change` to x, in place, and give what the next product sees; post: x itself is normed."""
        seen = self.empty_rows(*x_RD.shape)
        made = (None, None, None, 0) if change is None else read(change)
        how = (
            (None, None, 0.0, 0)
            if norm is None
            else (address(norm.gain_D), address(norm.bias_D), norm.eps, norm.centred)
        )
        self.function["add_norm"](*made, address(x_RD), *how, post, *write(seen))
        return seen

    def activate(self, hidden: Made, kind: FeedForwardKind) -> Rows:
        rows, width = hidden.data_RN.shape
        seen = self.empty_rows(rows, width // 2 if kind == "swiglu" else width)
        self.function["activate"](*read(hidden), ACTIVATIONS[kind], *write(seen))
        return seen

    def keep(self, made: Made, first: int) -> Tensor:
        """Keys and values, side by side, from column `first` on: kept_R(2D)."""
        rows, size = len(made.data_RN), 2 * self.d_model
        kept = torch.empty(rows, size, dtype=KEPT[self.form])
        self.function["keep"](*read(made), first, address(kept), rows, size)
        return kept

    def attend_sentence(
        self, query: Made, kept: Tensor, sentence_R: Tensor, start_B: Tensor, length_B: Tensor, longest: int
    ) -> Rows:
        """Each row over the keys of its sentence, which stand together from `start` on."""
        seen = self.empty_rows(len(query.data_RN), self.d_model)
        where = (address(kept), address(sentence_R), address(start_B), address(length_B), longest)
        self.function["attend_sentence"](*read(query), *where, self.head_size**-0.5, self.n_heads, *write(seen))
        return seen

    def attend_past(self, query: Made, kept_at: int, table_RT: Tensor, length: int) -> Rows:
        """Each row over its own past; `kept_at` is where the addresses of the keys of each time stand."""
        seen = self.empty_rows(len(query.data_RN), self.d_model)
        where = (kept_at, address(table_RT), table_RT.shape[1], length)
        self.function["attend_past"](*read(query), *where, self.head_size**-0.5, self.n_heads, *write(seen))
        return seen

    def best(self, logits: Made, barred: Tensor, width: int) -> tuple[Tensor, Tensor] | None:
        """(log_prob_RC, token_RC), best first; None if a logit is not a number."""
        rows = len(logits.data_RN)
        best_RC, token_RC = torch.empty(rows, width), torch.empty(rows, width, dtype=torch.int64)
        out = (address(best_RC), address(token_RC), rows)
        sound = self.function["best"](*read(logits), address(barred), len(barred), width, *out)
        return (best_RC, token_RC) if sound else None

    def int8_product(self, x_RW: Tensor, packed: Tensor, offset_N: Tensor, scale_N: Tensor) -> Tensor:
        """x Wᵀ, where the CPU has units for it; `products.pack_bytes` packs the matrix."""
        out_RN = torch.empty(len(x_RW), len(scale_N))
        self.multiply_bytes(*map(address, (x_RW, packed, offset_N, scale_N, out_RN)), *out_RN.shape, x_RW.shape[1])
        return out_RN


def load_kernels(form: Form, n_heads: int, head_size: int) -> Kernels | None:
    """None where there is no compiler."""
    native = library(SOURCE)
    return None if native is None else Kernels(native, form, n_heads, head_size)


def bind(native: ctypes.CDLL, name: str, arguments: Sequence[type]) -> ctypes._NamedFuncPointer:
    """A kernel with the kinds of its arguments told once, so that a call takes plain numbers."""
    function = native[name]
    function.argtypes = arguments
    return function


def address(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()


def read(made: Made) -> tuple[int | None, int | None, int | None, int]:
    return address(made.data_RN), address(made.scale_R), address(made.bias_N), made.data_RN.shape[1]


def write(seen: Rows) -> tuple[int | None, int | None, int, int]:
    rows, width = seen.data_RD.shape
    return address(seen.data_RD), address(seen.scale_R), width, rows
