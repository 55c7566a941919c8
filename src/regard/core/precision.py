"""Selection of the compute precision: bf16 or int8 where the hardware has units for it, else float32."""

from __future__ import annotations

import os
from typing import assert_never

import torch

from regard.config import Precision
from regard.core.int8 import reason_against


def cpu_matrix_units() -> str:
    """The best bf16 support of this CPU that oneDNN may use: 'AMX', 'AVX512-BF16' or ''."""
    if torch.cpu._is_amx_tile_supported() and isa_allowed("AMX"):
        return "AMX"
    bf16_allowed = isa_allowed("BF16", "FP16", "AMX", "AVX10")
    return "AVX512-BF16" if bf16_allowed and torch.cpu._is_avx512_bf16_supported() else ""


def cpu_has_vnni() -> bool:
    """Whether the CPU has AVX512-VNNI, and ONEDNN_MAX_CPU_ISA does not exclude it."""
    return torch.cpu._is_vnni_supported() and isa_allowed("AVX512_CORE_VNNI", "BF16", "FP16", "AMX", "AVX10")


def isa_allowed(*names: str) -> bool:
    """Whether ONEDNN_MAX_CPU_ISA allows one of these. Where it does not, oneDNN computes bf16 in float32, slowly."""
    limit = os.environ.get("ONEDNN_MAX_CPU_ISA", "").upper()
    return limit in ("", "ALL", "DEFAULT") or any(name in limit for name in names)


def takes_int8(precision: Precision, device: torch.device) -> bool:
    """Whether training uses int8 products (core/int8.py): if requested, or if "auto" finds them fastest.

    With AMX, bf16 products are faster than our int8 products, which use VNNI.
    """
    if precision == "auto":
        return cpu_has_vnni() and cpu_matrix_units() != "AMX" and reason_against(device) is None
    return precision == "int8"


def choose_dtype(precision: Precision, device: torch.device) -> torch.dtype:
    match precision:
        case "float32":
            return torch.float32
        case "bfloat16":
            return torch.bfloat16
        case "auto" | "int8":  # int8: the dtype between its products
            if device.type == "cuda":
                return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float32
            return torch.bfloat16 if device.type == "cpu" and cpu_matrix_units() else torch.float32
        case _:
            assert_never(precision)
