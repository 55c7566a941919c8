"""Which number format to compute in: bf16 where the machine has units for it, else float32."""

from __future__ import annotations

import os
from typing import assert_never

import torch

from regard.config import Precision


def cpu_matrix_units() -> str:
    """The best bf16 support of this CPU that oneDNN may use: 'AMX', 'AVX512-BF16' or ''."""
    limit = os.environ.get("ONEDNN_MAX_CPU_ISA", "").upper()  # beyond it, oneDNN computes bf16 in float32, slowly
    unlimited = limit in ("", "ALL", "DEFAULT")
    if torch.cpu._is_amx_tile_supported() and (unlimited or "AMX" in limit):
        return "AMX"
    wide = unlimited or any(name in limit for name in ("BF16", "FP16", "AMX", "AVX10"))
    return "AVX512-BF16" if wide and torch.cpu._is_avx512_bf16_supported() else ""


def choose_dtype(precision: Precision, device: torch.device) -> torch.dtype:
    match precision:
        case "float32":
            return torch.float32
        case "bfloat16":
            return torch.bfloat16
        case "auto":
            if device.type == "cuda":
                return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float32
            return torch.bfloat16 if device.type == "cpu" and cpu_matrix_units() else torch.float32
        case _:
            assert_never(precision)
