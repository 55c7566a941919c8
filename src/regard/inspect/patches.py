"""Which patches of an image a Vision Transformer looked at, all layers together.

Attention rollout (Abnar & Zuidema 2020, section 3), as the paper's own pictures are made (Dosovitskiy et al. 2021,
section 4.5): a layer passes on half of what stood at a place and half of what the place looked at, the mean of its
heads; one layer after the other, that is a product of matrices; its first row says how much of each patch has come to
the class token. It is a summary, not a proof: what is brought along need not be used.

Shapes: H heads, L = 1 + N places, N patches.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def rollout(layers_HLL: Sequence[np.ndarray]) -> np.ndarray:
    """share_N of each patch in what the class token has become; they add up to 1."""
    n_places = layers_HLL[0].shape[-1]
    kept = np.eye(n_places)
    brought_LL = kept
    for weights_HLL in layers_HLL:
        brought_LL = (0.5 * weights_HLL.astype(np.float64).mean(axis=0) + 0.5 * kept) @ brought_LL
    share_N = brought_LL[0, 1:]
    total = share_N.sum()
    return share_N / total if total > 0 else np.full(n_places - 1, 1 / max(n_places - 1, 1))
