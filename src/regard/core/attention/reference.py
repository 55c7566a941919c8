"""Scaled dot-product attention (the paper, section 3.2.1), one operator after the other.

This kernel returns its weights and passes scores and weights through hooks. `bias` is for position biases on the
scores. Deviation from the paper: none.

Shapes: B batch, L query length, M memory length, H heads, K head size.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from torch import Tensor

TensorHook = Callable[[Tensor], Tensor]  # returns the value to use


def identity(x: Tensor) -> Tensor:
    return x


def reference_attention(
    q_BHLK: Tensor,
    k_BHMK: Tensor,
    v_BHMK: Tensor,
    mask: Tensor | None,
    scale: float,
    bias: Tensor | None = None,
    *,
    scores_hook: TensorHook = identity,
    weights_hook: TensorHook = identity,
    dropout: TensorHook = identity,
) -> tuple[Tensor, Tensor]:
    """softmax(q kᵀ · scale + bias, where mask) v, and the weights."""
    scores_BHLM = (q_BHLK * scale) @ k_BHMK.mT
    if bias is not None:
        scores_BHLM = scores_BHLM + bias.to(scores_BHLM.dtype)
    scores_BHLM = scores_hook(scores_BHLM)
    if mask is not None:
        scores_BHLM = scores_BHLM.masked_fill(~mask, -math.inf)
    weights_BHLM = weights_hook(scores_BHLM.softmax(dim=-1))
    return dropout(weights_BHLM) @ v_BHMK, weights_BHLM
