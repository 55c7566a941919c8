"""Masks. Everywhere in Regard a mask is boolean and True means: may attend.

Shapes: B batch, L query length, M memory length. A mask broadcasts against scores_BHLM.
"""

from __future__ import annotations

import torch
from torch import Tensor


def padding_mask(ids_BM: Tensor, pad_id: int) -> Tensor:
    """mask_B11M: every query may look at every real token."""
    return (ids_BM != pad_id)[:, None, None, :]


def causal_mask(n_queries: int, n_keys: int, device: torch.device | None = None) -> Tensor:
    """mask_LM: query i, the last of which stands at the last key, may look at itself and what came before."""
    start = n_keys - n_queries
    return torch.ones(n_queries, n_keys, dtype=torch.bool, device=device).tril(diagonal=start)
