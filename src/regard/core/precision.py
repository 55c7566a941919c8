"""Which number format to compute in: bf16 where the machine has units for it, else float32."""

from __future__ import annotations

from typing import assert_never

import torch

from regard.config import Precision


def cpu_matrix_units() -> str:
    """The best bf16 support of this CPU: 'AMX', 'AVX512-BF16' or ''."""
    if torch.cpu._is_amx_tile_supported():
        return "AMX"
    return "AVX512-BF16" if torch.cpu._is_avx512_bf16_supported() else ""


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
