"""Normalisation of each token's vector: LayerNorm (Ba et al. 2016) and RMSNorm (Zhang & Sennrich 2019).

Both compute their statistics in float32 or better, whatever the precision of x. Shapes: ...D in, ...D out.
"""

from __future__ import annotations

from typing import assert_never

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.config import NormKind


class LayerNorm(nn.LayerNorm):
    """y = (x − mean) / sqrt(variance + eps) · gain + bias."""


class RMSNorm(nn.Module):
    """y = x / sqrt(mean(x²) + eps) · gain."""

    def __init__(self, d_model: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d_model))

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.weight.shape, self.weight.to(x.dtype), self.eps)


def build_norm(kind: NormKind, d_model: int, eps: float | None = None) -> nn.Module:
    """`eps` None: 1e-5 for LayerNorm, 1e-6 for RMSNorm."""
    match kind:
        case "layernorm":
            return LayerNorm(d_model, 1e-5 if eps is None else eps)
        case "rmsnorm":
            return RMSNorm(d_model, 1e-6 if eps is None else eps)
        case _:
            assert_never(kind)
