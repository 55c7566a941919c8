"""The patches of an image to which a Vision Transformer attends, over all layers.

Attention rollout (Abnar & Zuidema 2020, section 3), as the paper's own pictures are made (Dosovitskiy et al. 2021,
section 4.5): each layer mixes positions by ½ (identity + the mean of its heads' weights). The product of these matrices
over all layers has, in its first row, the share of each patch in the class token. It is a summary, not a proof: a value
that is passed on need not be used.

Shapes: H heads, L = 1 + N positions, N patches.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def rollout(layers_HLL: Sequence[np.ndarray]) -> np.ndarray:
    """share_N of each patch in the class token; they sum to 1."""
    n_positions = layers_HLL[0].shape[-1]
    identity_LL = np.eye(n_positions)
    mixed_LL = identity_LL
    for weights_HLL in layers_HLL:
        mixed_LL = (0.5 * weights_HLL.astype(np.float64).mean(axis=0) + 0.5 * identity_LL) @ mixed_LL
    share_N = mixed_LL[0, 1:]
    total = share_N.sum()
    return share_N / total if total > 0 else np.full(n_positions - 1, 1 / max(n_positions - 1, 1))
