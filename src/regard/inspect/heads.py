"""Statistics of an attention map, to sort and compare heads by.

    entropy      of a row's weights, in nats: 0 is a single key, log M a uniform row; mean over the rows
    diagonality  1 − the mean distance between query and key, both scaled from 0 (first) to 1 (last)
    end          the share of the weight on the last key: in the source, the end token
    peak         the largest weight of a row; mean over the rows
    alignment    of cross-attention: the share of rows whose largest weight is where that of the mean over all heads is,
                 from which words are aligned; the row of the end token is left out

Shapes: H heads, L query length, M memory length.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True)
class HeadFigures:
    where: str  # "decoder.0.cross"
    head: int
    entropy: float
    diagonality: float
    end: float
    peak: float
    alignment: float | None = None  # of cross-attention only


def head_figures(weights_HLM: np.ndarray, where: str, mean_LM: np.ndarray | None = None) -> list[HeadFigures]:
    """One per head of the attention at `where`; for cross-attention, `mean_LM` is the mean over all layers and heads.

    A row of zeros counts as zeros.
    """
    n_rows, n_columns = weights_HLM.shape[1:]
    weights = weights_HLM.astype(np.float64)
    logs = np.log(weights, out=np.zeros_like(weights), where=weights > 0)
    entropy_H = -(weights * logs).sum(axis=2).mean(axis=1)
    rows_L1 = np.linspace(0, 1, n_rows)[:, None]
    distance_LM = np.abs(rows_L1 - np.linspace(0, 1, n_columns)[None, :])
    diagonality_H = (weights * (1 - distance_LM)).sum(axis=2).mean(axis=1)
    end_H, peak_H = weights[:, :, -1].mean(axis=1), weights.max(axis=2).mean(axis=1)
    found = [
        HeadFigures(where, head, *(float(value) for value in values))
        for head, values in enumerate(zip(entropy_H, diagonality_H, end_H, peak_H, strict=True))
    ]
    if mean_LM is None:
        return found
    return [replace(one, alignment=share) for one, share in zip(found, alignments(weights, mean_LM), strict=True)]


def alignments(weights_HLM: np.ndarray, mean_LM: np.ndarray) -> list[float]:
    words_HLM, wanted_L = weights_HLM[:, :-1], mean_LM[:-1].argmax(axis=1)
    if not len(wanted_L):
        return [0.0] * len(weights_HLM)
    agrees_HL = (words_HLM.argmax(axis=2) == wanted_L) & (words_HLM.max(axis=2) > 0)
    return [float(share) for share in agrees_HL.mean(axis=1)]
