"""What kind of head is it? Figures of an attention map, to sort and compare heads by.

    entropy      of a row's weights, in nats: 0 looks at one token, log M at all alike; the mean over the rows
    diagonality  1 − the mean distance between query and key, both measured from 0 (first) to 1 (last)
    end          the share of the weight on the last key: in the source, the end of the sentence
    peak         the largest weight of a row, the mean over the rows: how sharply the head points
    alignment    of a cross-attention: for how many of the words it looks most where all heads together look most, from
                 which the alignment of the words is read; the end of the sentence is not a word

Shapes: H heads, L query length, M memory length.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True)
class HeadFigures:
    entropy: float
    diagonality: float
    end: float
    peak: float
    alignment: float | None = None


def head_figures(weights_HLM: np.ndarray, mean_LM: np.ndarray | None = None) -> list[HeadFigures]:
    """One for each head; for a cross-attention, `mean_LM` is that of all. A row set to zero counts as zeros."""
    n_rows, n_columns = weights_HLM.shape[1:]
    weights = weights_HLM.astype(np.float64)
    logs = np.log(weights, out=np.zeros_like(weights), where=weights > 0)
    entropy_H = -(weights * logs).sum(axis=2).mean(axis=1)
    rows_L1 = np.linspace(0, 1, n_rows)[:, None]
    distance_LM = np.abs(rows_L1 - np.linspace(0, 1, n_columns)[None, :])
    diagonality_H = (weights * (1 - distance_LM)).sum(axis=2).mean(axis=1)
    end_H, peak_H = weights[:, :, -1].mean(axis=1), weights.max(axis=2).mean(axis=1)
    found = [
        HeadFigures(*(float(value) for value in values))
        for values in zip(entropy_H, diagonality_H, end_H, peak_H, strict=True)
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
