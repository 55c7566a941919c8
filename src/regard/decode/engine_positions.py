"""The engine's tables of positions: what core/positions.py computes, in numpy, for all positions up to a length.

Shapes: L positions, D model, H heads, K pairs of a head's dimensions, O offsets (key position − query position).
"""

from __future__ import annotations

import math
from typing import Any, assert_never

import numpy as np
import numpy.typing as npt

from regard.config import Position
from regard.decode.engine_shape import Shape, Stack
from regard.decode.engine_weights import Weights, as_float32
from regard.kernels.bindings import PositionTables, array_address

SHORTEST = 256  # positions of a first table
ROTARY_THETA = 10_000.0
PADDING = 16  # numbers after the biases of a head: the engine reads a whole vector

Floats = npt.NDArray[np.float32]


class PositionTable:
    """The positions of one stack of a model, with tables that grow with the longest sentence."""

    def __init__(self, shape: Shape, stack: Stack, weights: Weights) -> None:
        self.kind: Position = shape.position
        self.shape, self.two_sided = shape, stack is shape.encoder
        self.learned: Floats | None = None
        match self.kind:
            case "learned":
                self.learned = as_float32(f"{stack.positions}.table_LD", weights)
                if shape.segments is not None:  # all tokens are of the first segment
                    self.learned = self.learned + as_float32(shape.segments, weights)[0]
            case "relative":
                self.learned = as_float32(f"{stack.positions}.table", weights)
            case "sinusoidal" | "rotary" | "alibi" | "none":
                pass
            case _:
                assert_never(self.kind)
        self.tables: tuple[int, Floats | None, Floats | None] = (0, None, None)  # length, rows_LD, bias_HO

    def up_to(self, length: int) -> Tables:
        """Tables of at least `length` positions."""
        if self.kind == "none":
            return Tables(length, None, None)
        if self.kind == "learned" and self.learned is not None:
            if length > len(self.learned):
                raise ValueError(f"{length} tokens, but this model has learned positions for only {len(self.learned)}")
            return Tables(len(self.learned), self.learned, None)
        tables = self.tables  # read once: another thread may replace it by shorter ones
        if length > tables[0]:
            grown = max(length, SHORTEST, 2 * tables[0])
            self.tables = tables = (grown, self.rows(grown), self.bias(grown))
        return Tables(*tables)

    def rows(self, length: int) -> Floats | None:
        """What is added to the embeddings, or the cosines and then the sines of rotary positions."""
        match self.kind:
            case "sinusoidal":
                return sinusoids(length, self.shape.d_model)
            case "rotary":
                return cosines_and_sines(length, self.shape.head_size)
            case "learned" | "alibi" | "relative" | "none":
                return None
            case _:
                assert_never(self.kind)

    def bias(self, length: int) -> Floats | None:
        """bias_HO added to the scores, for offsets from 1 − length to length − 1, and padding."""
        offset_O = np.arange(1 - length, length)
        if self.kind == "alibi":
            bias_HO = alibi(offset_O, self.shape.n_heads, self.two_sided)
        elif self.kind == "relative" and self.learned is not None:
            buckets = relative_buckets(offset_O, self.two_sided, len(self.learned), self.shape.max_distance)
            bias_HO = self.learned[buckets].T
        else:
            return None
        return np.ascontiguousarray(np.pad(bias_HO, ((0, 0), (0, PADDING))), np.float32)


class Tables:
    """Tables that a search holds while the engine reads them."""

    def __init__(self, length: int, rows: Floats | None, bias: Floats | None) -> None:
        self.length, self.rows, self.bias = length, rows, bias

    @property
    def pointers(self) -> PositionTables:
        addresses = (None if table is None else array_address(table, np.float32) for table in (self.rows, self.bias))
        return PositionTables(*addresses, self.length, 0 if self.bias is None else self.bias.shape[1])


def sinusoids(length: int, d_model: int) -> Floats:
    """rows_LD: sin and cos of position / 10000^(2i/d_model), alternating."""
    position = np.arange(length, dtype=np.float64)[:, None]
    frequency = np.exp(np.arange(0, d_model, 2, dtype=np.float64) * (-math.log(10_000.0) / d_model))
    table = np.zeros((length, d_model))
    table[:, 0::2] = np.sin(position * frequency)
    table[:, 1::2] = np.cos(position * frequency)[:, : d_model // 2]
    return table.astype(np.float32)


def cosines_and_sines(length: int, head_size: int) -> Floats:
    """Angles are rounded to float32, as in the model; their cosines and sines are those of the rounded angles."""
    half = head_size // 2
    exponent_K = -np.arange(half, dtype=np.float32) / np.float32(half)
    frequency_K = np.power(ROTARY_THETA, exponent_K.astype(np.float64)).astype(np.float32)
    angle_LK = (np.arange(length, dtype=np.float32)[:, None] * frequency_K).astype(np.float64)
    return np.concatenate([np.cos(angle_LK), np.sin(angle_LK)], axis=1).astype(np.float32)


def alibi(offset_O: npt.NDArray[Any], n_heads: int, two_sided: bool) -> Floats:
    slope_H1 = (2.0 ** (-8.0 * np.arange(1, n_heads + 1) / n_heads)).astype(np.float32)[:, None]
    distance_O = np.where(offset_O > 0, 2 * offset_O, -offset_O) if two_sided else np.abs(offset_O)
    bias_HO: Floats = -slope_H1 * distance_O.astype(np.float32)
    return bias_HO


def relative_buckets(offset_O: npt.NDArray[Any], two_sided: bool, n: int, max_distance: int) -> npt.NDArray[np.int64]:
    """The bucket of each offset; the logarithm is rounded to float32, as in the model."""
    side_O = np.zeros_like(offset_O)
    distance_O = np.maximum(-offset_O, 0)
    if two_sided:
        n //= 2
        side_O, distance_O = (offset_O > 0) * n, np.abs(offset_O)
    exact = n // 2
    ratio_O = np.log(np.maximum(distance_O, 1).astype(np.float32) / np.float32(exact))
    ratio_O = ratio_O / np.float32(math.log(max_distance / exact))
    far_O = np.minimum(exact + (ratio_O * np.float32(n - exact)).astype(np.int64), n - 1)
    buckets_O: npt.NDArray[np.int64] = side_O + np.where(distance_O < exact, distance_O, far_O)
    return buckets_O
