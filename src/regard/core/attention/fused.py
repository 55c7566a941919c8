"""Scaled dot-product attention with `F.scaled_dot_product_attention`: for long sequences; does not return the weights.

Shapes: B batch, L query length, M memory length, H heads, K head size.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

# PyTorch's fused CPU kernel is slower than three plain operators unless the score matrix is large; in bfloat16,
# whose plain products are fast, unless it is very large.
FUSED_FROM, FUSED_FROM_BFLOAT16 = 256 * 256, 768 * 768


def fused_pays(q_BHLK: Tensor, k_BHMK: Tensor, dropout: float) -> bool:
    """Whether the fused kernel is faster here than the reference kernel."""
    if dropout > 0 and q_BHLK.device.type == "cpu":  # the fused CPU kernel has no dropout
        return False
    least = FUSED_FROM_BFLOAT16 if q_BHLK.dtype == torch.bfloat16 else FUSED_FROM
    return q_BHLK.shape[2] * k_BHMK.shape[2] >= least or q_BHLK.device.type != "cpu"


def fused_attention(
    q_BHLK: Tensor,
    k_BHMK: Tensor,
    v_BHMK: Tensor,
    mask: Tensor | None,
    scale: float,
    bias: Tensor | None = None,
    dropout: float = 0.0,
) -> tuple[Tensor, None]:
    """softmax(q kᵀ · scale + bias, where mask) v; the weight matrix is never stored."""
    where: Tensor | None = mask
    if bias is not None:
        where = bias.to(q_BHLK.dtype)
        if mask is not None:
            where = torch.where(mask, where, -math.inf)
    return F.scaled_dot_product_attention(q_BHLK, k_BHMK, v_BHMK, where, dropout, scale=scale), None
