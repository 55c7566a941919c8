"""The k largest values of each row, with ties always broken the same way: the lower index first.

`torch.topk` leaves the choice among equal values open. Logits computed in bfloat16 are often equal, and a
translation must not depend on the device, nor on the size of k.

Shapes: N rows, W values per row, K best.
"""

from __future__ import annotations

import torch
from torch import Tensor


def select_best(values_NW: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """(best_NK, index_NK): the k largest values of each row, largest first, and their indices."""
    width = values_NW.shape[1]
    if k >= width:
        return torch.sort(values_NW, dim=1, descending=True, stable=True)
    # One more than needed: if it equals the last one taken, topk's choice among the equals is arbitrary.
    top_NK1, index_NK1 = values_NW.topk(k + 1, dim=1)
    index_NK = index_NK1[:, :k]
    tied_N = (top_NK1[:, k - 1] == top_NK1[:, k]) & (top_NK1[:, k] > -torch.inf)
    if tied_N.any():
        index_NK = index_NK.clone()
        index_NK[tied_N] = take_first_equals(values_NW[tied_N], top_NK1[tied_N, k - 1], k)
    index_NK = index_NK.sort(dim=1).values
    best_NK, order_NK = values_NW.gather(1, index_NK).sort(dim=1, descending=True, stable=True)
    return best_NK, index_NK.gather(1, order_NK)


def take_first_equals(values_NW: Tensor, last_N: Tensor, k: int) -> Tensor:
    """index_NK of the values above `last_N`, and of as many equal to it, from the left, as make k."""
    above_NW = values_NW > last_N[:, None]
    equal_NW = values_NW == last_N[:, None]
    room_N = k - above_NW.sum(dim=1)
    taken_NW = above_NW | (equal_NW & (equal_NW.cumsum(dim=1) <= room_N[:, None]))
    return taken_NW.nonzero()[:, 1].view(-1, k)
