"""One attention map with the labels of its rows and columns.

A row of the decoder is the token that is predicted. Its input is the tokens before it, so the columns of decoder
self-attention start with the begin token and end before the predicted token.

Shapes: L query length, M memory length, H heads, N layers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from regard.errors import ConfigError
from regard.inspect.trace import Trace

MapKind = Literal["cross", "encoder", "decoder"]
PATHS = {"cross": "decoder.{}.cross.weights", "encoder": "encoder.{}.attention.weights"}
PATHS["decoder"] = "decoder.{}.attention.weights"
MOST_DRAWN = 512  # rows and columns; nobody can read larger maps, and drawing is quadratic
NAMES = {"cross": "cross-attention", "encoder": "encoder self-attention", "decoder": "decoder self-attention"}


@dataclass(frozen=True)
class AttentionMap:
    weights_LM: np.ndarray
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    title: str


def attention_map(trace: Trace, kind: MapKind, layer: int | None = None, head: int | None = None) -> AttentionMap:
    """One head, counted from 1, or the mean over all layers or heads where None; the title says which."""
    weights_NHLM = all_weights(trace, kind)
    n_layers, n_heads = weights_NHLM.shape[:2]
    for name, chosen, count in (("layer", layer, n_layers), ("head", head, n_heads)):
        if chosen is not None and not 1 <= chosen <= count:
            raise ConfigError(f"there is no {name} {chosen} in the {NAMES[kind]}: it has {count}, numbered from 1")
    chosen_NHLM = weights_NHLM if layer is None else weights_NHLM[layer - 1 : layer]
    chosen_NHLM = chosen_NHLM if head is None else chosen_NHLM[:, head - 1 : head]
    which = [f"layer {layer}" if layer is not None else "", f"head {head}" if head is not None else ""]
    averaged = [f"{n_layers} layers" if layer is None else "", f"{n_heads} heads" if head is None else ""]
    mean = " × ".join(part for part in averaged if part)
    title = ", ".join(part for part in (NAMES[kind], *which, f"mean of {mean}" if mean else "") if part)
    tgt = tuple(show(piece) for piece in trace.tgt_tokens)
    src = tuple(show(piece) for piece in trace.src_tokens)
    rows = src if kind == "encoder" else tgt
    columns = ("<s>", *tgt[:-1]) if kind == "decoder" else src
    if max(len(rows), len(columns)) > MOST_DRAWN:
        raise ConfigError(
            f"the map has {len(rows):,} rows and {len(columns):,} columns; at most {MOST_DRAWN} of each can be drawn: "
            "shorten the text"
        )
    return AttentionMap(chosen_NHLM.mean(axis=(0, 1)), rows, columns, title)


def all_weights(trace: Trace, kind: MapKind) -> np.ndarray:
    found: list[np.ndarray] = []
    while (path := PATHS[kind].format(len(found))) in trace.values:
        found.append(trace[path])
    if not found:
        raise ConfigError(f"this model has no {NAMES[kind]} to draw")
    return np.stack(found)


def show(piece: str) -> str:
    """A piece without the space mark, unless it is all there is."""
    return piece.removeprefix("▁") or piece
