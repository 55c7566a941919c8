"""Linformer (Wang et al. 2020, section 4): keys and values are projected along the length, from n to k.

softmax(Q (E K)ᵀ / √d) F V. Padding is masked before the projection, as afterwards every projected key is a mixture of
tokens; an input shorter than n uses the first columns of E and F. A mixture of tokens cannot be causal: encoders only.

Shapes: B batch, L length, H heads, K head size, N longest input, P projected length, S sets of projections (H or 1).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from regard.config.attention import LinformerConfig
from regard.core.attention.multi_head import Cache, MultiHeadAttention
from regard.core.masks import CausalMask, Mask
from regard.core.taps import Tap


class LengthProjection(nn.Module):
    """E or F: x_BHLK in, BHPK out."""

    def __init__(self, n_sets: int, projected_length: int, length: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n_sets, projected_length, length))

    def forward(self, x_BHLK: Tensor) -> Tensor:
        n, longest = x_BHLK.shape[2], self.weight.shape[2]
        if n > longest:
            raise ValueError(f"{n} tokens, but the length projections of this model end at {longest}")
        return self.weight[..., :n].to(x_BHLK.dtype) @ x_BHLK

    def initialise(self) -> None:
        """Normal with variance 1 / n, which keeps the variance of the keys and values of a full input."""
        nn.init.normal_(self.weight, std=self.weight.shape[2] ** -0.5)


class Linformer(MultiHeadAttention):
    """`share_between_layers` in build.py gives the layers their one projection where `sharing` is "layer"."""

    def __init__(
        self, d_model: int, n_heads: int, dropout: float = 0.0, *, config: LinformerConfig, **shape: Any
    ) -> None:
        super().__init__(d_model, n_heads, dropout, **shape)
        self.sharing = config.sharing
        n_sets = n_heads if config.sharing == "none" else 1
        self.project_k = LengthProjection(n_sets, config.projected_length, config.length)
        self.project_v = self.project_k
        if config.sharing in ("none", "head"):
            self.project_v = LengthProjection(n_sets, config.projected_length, config.length)
        self.k_projected, self.v_projected = Tap(), Tap()

    def mix(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Mask | None, bias: Tensor | None, cache: Cache | None = None
    ) -> Tensor:
        if bias is not None:
            raise ValueError("positions that act on the scores (alibi, relative) need full or blockwise attention")
        if isinstance(mask, CausalMask) or (mask is not None and (mask.dim() < 4 or mask.shape[-3:-1] != (1, 1))):
            raise ValueError("Linformer mixes all tokens: it takes a mask of padding, and no other")
        if mask is not None:
            k, v = (x * mask.mT.to(x.dtype) for x in (k, v))
        return super().mix(q, self.k_projected(self.project_k(k)), self.v_projected(self.project_v(v)), None, None)
