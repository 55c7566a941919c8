"""The residual stream of one token: norms before and after each sublayer, and the most active units of a
feed-forward network.

Shapes: D model, F feed-forward.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from regard.inspect.trace import Trace

SUBLAYERS = (("attention", "attn_out"), ("cross", "attn_out"), ("ffn", "ffn_out"))


@dataclass(frozen=True)
class Stage:
    """One sublayer, as norms of vectors: its input, what it adds, their sum, and the output."""

    where: str
    before: float
    change: float
    resid: float
    after: float
    cosine: float  # between the input and what is added; −1: it erases the input


@dataclass(frozen=True)
class Unit:
    unit: int
    value: float


def stages(trace: Trace, side: str, position: int, pre: bool) -> list[Stage]:
    """Every sublayer of the encoder or the decoder at one position, in order. `pre`: the model is pre-norm."""
    stream_D = trace["src_embedded" if side == "encoder" else "tgt_embedded"][position]
    found = []
    for layer in range(count_layers(trace, side)):
        for sublayer, tap in SUBLAYERS:
            path, around = f"{side}.{layer}.{sublayer}", f"{side}.{layer}.around_{sublayer}"
            if f"{path}.{tap}" not in trace.values:  # an encoder has no cross-attention
                continue
            change_D, resid_D = trace[f"{path}.{tap}"][position], trace[f"{around}.resid"][position]
            after_D = resid_D if pre else trace[f"{around}.normed"][position]
            before, change, resid, after = (float(np.linalg.norm(x)) for x in (stream_D, change_D, resid_D, after_D))
            found.append(Stage(path, before, change, resid, after, cosine(stream_D, change_D)))
            stream_D = after_D
    return found


def count_layers(trace: Trace, side: str) -> int:
    return sum(path.startswith(f"{side}.") and path.endswith(".around_ffn.resid") for path in trace.values)


def cosine(one_D: np.ndarray, other_D: np.ndarray) -> float:
    lengths = float(np.linalg.norm(one_D) * np.linalg.norm(other_D))
    return float(one_D @ other_D) / lengths if lengths else 0.0


def most_active(trace: Trace, side: str, layer: int, position: int, count: int) -> list[Unit]:
    """The units of a feed-forward network with the largest absolute activation, in order."""
    hidden_F = trace[f"{side}.{layer}.ffn.ffn_hidden"][position]
    order = np.argsort(-np.abs(hidden_F), kind="stable")[:count]
    return [Unit(int(unit), float(hidden_F[unit])) for unit in order]
