"""Attention masks. Everywhere in Regard a mask is boolean, and True means: may attend.

Shapes: B batch, L query length, M memory length. A mask broadcasts to scores_BHLM.
"""

from __future__ import annotations

import torch
from torch import Tensor


def padding_mask(ids_BM: Tensor, pad_id: int) -> Tensor:
    """mask_B11M: every query may attend to every token that is not padding."""
    return (ids_BM != pad_id)[:, None, None, :]


def causal_mask(n_queries: int, n_keys: int, device: torch.device | None = None) -> Tensor:
    """mask_LM: every query may attend to its own position and earlier ones. The last query is at the last key."""
    start = n_keys - n_queries
    return torch.ones(n_queries, n_keys, dtype=torch.bool, device=device).tril(diagonal=start)
