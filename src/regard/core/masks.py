"""Attention masks. Everywhere in Regard a mask is boolean, and True means: may attend.

Shapes: B batch, L query length, M memory length. A mask broadcasts to scores_BHLM.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor


def padding_mask(ids_BM: Tensor, pad_id: int) -> Tensor:
    """mask_B11M: every query may attend to every token that is not padding."""
    return (ids_BM != pad_id)[:, None, None, :]


def causal_mask(n_queries: int, n_keys: int, device: torch.device | None = None) -> Tensor:
    """mask_LM: every query may attend to its own position and earlier ones. The last query is at the last key."""
    start = n_keys - n_queries
    return torch.ones(n_queries, n_keys, dtype=torch.bool, device=device).tril(diagonal=start)


@dataclass(frozen=True)
class CausalMask:
    """`causal_mask` as a statement: the matrix is made when an attention asks for it, once for all layers.

    Attentions that compute block by block never ask, so that a long text needs no L×L matrix.
    """

    n_queries: int
    n_keys: int
    device: torch.device | None = None

    @cached_property
    def dense(self) -> Tensor:
        return causal_mask(self.n_queries, self.n_keys, self.device)


Mask = Tensor | CausalMask


def dense(mask: Mask | None) -> Tensor | None:
    """The mask as a matrix."""
    return mask.dense if isinstance(mask, CausalMask) else mask
