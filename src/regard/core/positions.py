"""Positional encodings, of six kinds.

    sinusoidal  added to the embedding, fixed                  Vaswani et al. 2017, section 3.5
    learned     added to the embedding, one row per position   Gehring et al. 2017
    rotary      rotates queries and keys                       Su et al. 2021
    alibi       added to the scores, linear in the distance    Press et al. 2021 (in an encoder: steeper to the right)
    relative    added to the scores, learned per bucket        Raffel et al. 2020 (T5), section 2.1
    none        nothing

One class per kind, with the same three methods, of which each kind overrides one.
Shapes: B batch, L query length, M key length, D model, H heads, K head size.
"""

from __future__ import annotations

import math
from typing import assert_never

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.config import Position
from regard.core.rotation import fits, rotate
from regard.core.sharding import token_positions

YARN_BETA_FAST, YARN_BETA_SLOW = 32, 1  # full rotations within `original_length`


class Positions(nn.Module):
    """No positional encoding; the base class of the others. `start` is the position of the first token.

    Of a text that is cut among ranks, the positions are those in the whole text (sharding.py).
    """

    def add(self, x_BLD: Tensor, start: int) -> Tensor:
        return x_BLD

    def rotate(self, x_BHLK: Tensor, start: int) -> Tensor:
        return x_BHLK

    def bias(self, n_queries: int, n_keys: int) -> Tensor | None:
        """bias_HLM added to the scores; the last query is at the position of the last key."""
        return None


def sinusoids(length: int, d_model: int) -> Tensor:
    """table_LD: sin and cos of position / 10000^(2i/d_model), alternating."""
    position = torch.arange(length, dtype=torch.float64)[:, None]
    frequency = torch.exp(torch.arange(0, d_model, 2, dtype=torch.float64) * (-math.log(10_000.0) / d_model))
    table = torch.zeros(length, d_model, dtype=torch.float64)
    table[:, 0::2] = torch.sin(position * frequency)
    table[:, 1::2] = torch.cos(position * frequency)[:, : d_model // 2]
    return table


class SinusoidalPositions(Positions):
    """x + PE. The table grows with the longest sentence; there is no limit."""

    table_LD: Tensor

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.register_buffer("table_LD", sinusoids(256, d_model).float(), persistent=False)

    def add(self, x_BLD: Tensor, start: int) -> Tensor:
        where, end = token_positions(start, x_BLD.shape[1])
        if end > len(self.table_LD):
            grown = sinusoids(max(end, 2 * len(self.table_LD)), x_BLD.shape[2])
            self.table_LD = grown.to(self.table_LD)
        return x_BLD + self.table_LD[where].to(x_BLD.dtype)


class LearnedPositions(Positions):
    """x + one learned vector per position, up to a maximum length."""

    def __init__(self, d_model: int, max_positions: int) -> None:
        super().__init__()
        self.table_LD = nn.Parameter(torch.zeros(max_positions, d_model))

    def add(self, x_BLD: Tensor, start: int) -> Tensor:
        where, end = token_positions(start, x_BLD.shape[1])
        self.check(end)
        return x_BLD + self.table_LD[where].to(x_BLD.dtype)

    def check(self, length: int) -> None:
        if length > len(self.table_LD):
            raise ValueError(f"{length} tokens, but this model has learned positions for only {len(self.table_LD)}")


class RotaryPositions(Positions):
    """Rotate each pair of dimensions by an angle proportional to the position: q·k then depends on the distance only.

    `scaling_factor` above 1 is YaRN (Peng et al. 2023, section 3.4): a model trained on texts of up to
    `original_length` tokens can then read texts `scaling_factor` times as long. Pairs with many rotations within
    `original_length` keep their frequency, pairs with less than one rotation get a lower one, and those in between are
    interpolated. The scores must be multiplied by `score_factor`.
    """

    def __init__(
        self, head_size: int, theta: float = 10_000.0, scaling_factor: float = 1.0, original_length: int = 4096
    ) -> None:
        super().__init__()
        self.head_size, self.theta = head_size, theta
        self.scaling_factor, self.original_length = scaling_factor, original_length
        self.score_factor = (0.1 * math.log(scaling_factor) + 1) ** 2

    def frequencies(self, like: Tensor) -> Tensor:
        """frequency_K: the angle per position of each pair."""
        half = self.head_size // 2
        pair_K = torch.arange(half, device=like.device, dtype=like.dtype)
        frequency_K = self.theta ** (-pair_K / half)
        if self.scaling_factor == 1.0:
            return frequency_K
        first = max(math.floor(self.pair_with_rotations(YARN_BETA_FAST)), 0)
        last = min(math.ceil(self.pair_with_rotations(YARN_BETA_SLOW)), self.head_size - 1)
        ramp_K = ((pair_K - first) / max(last - first, 0.001)).clamp(0, 1)
        return frequency_K * (1 - ramp_K) + frequency_K / self.scaling_factor * ramp_K

    def pair_with_rotations(self, rotations: int) -> float:
        """The index of the pair that makes this number of rotations within `original_length`."""
        return self.head_size / 2 * math.log(self.original_length / (rotations * 2 * math.pi)) / math.log(self.theta)

    def cos_sin(self, position_L: Tensor) -> tuple[Tensor, Tensor]:
        """The cosine and the sine of each pair's angle, as LK tables."""
        angle_LK = position_L[:, None] * self.frequencies(position_L)
        return angle_LK.cos(), angle_LK.sin()

    def rotate(self, x_BHLK: Tensor, start: int) -> Tensor:
        exact = torch.promote_types(x_BHLK.dtype, torch.float32)
        where, end = token_positions(start, x_BHLK.shape[2])
        position_L = torch.arange(end, device=x_BHLK.device, dtype=exact)[where]
        cos_LK, sin_LK = self.cos_sin(position_L)
        return (rotate if fits(x_BHLK) else rotate_plainly)(x_BHLK, cos_LK, sin_LK)


def rotate_plainly(x_BHLK: Tensor, cos_LK: Tensor, sin_LK: Tensor) -> Tensor:
    """The PyTorch fallback of rotation.py."""
    half, cos, sin = x_BHLK.shape[-1] // 2, cos_LK.to(x_BHLK.dtype), sin_LK.to(x_BHLK.dtype)
    first, second = x_BHLK[..., :half], x_BHLK[..., half:]
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


def distances(n_queries: int, n_keys: int, device: torch.device | None) -> Tensor:
    """key position − query position, as an LM table."""
    queries = torch.arange(n_keys - n_queries, n_keys, device=device)
    return torch.arange(n_keys, device=device)[None, :] - queries[:, None]


class AlibiPositions(Positions):
    """score − slope · distance, with one slope per head: 2^(−8/H), 2^(−16/H), …

    The paper defines it for causal attention. An encoder attends to both sides, and with the same slope on both it
    could not distinguish a sentence from its reversal, so `two_sided` doubles the distance of keys after the query.
    """

    slope_H11: Tensor

    def __init__(self, n_heads: int, two_sided: bool = False) -> None:
        super().__init__()
        self.two_sided = two_sided
        slopes = 2.0 ** (-8.0 * torch.arange(1, n_heads + 1, dtype=torch.float64) / n_heads)
        self.register_buffer("slope_H11", slopes.float()[:, None, None], persistent=False)

    def bias(self, n_queries: int, n_keys: int) -> Tensor | None:
        offset = distances(n_queries, n_keys, self.slope_H11.device)
        return -self.slope_H11 * (torch.where(offset > 0, 2 * offset, -offset) if self.two_sided else offset.abs())


class RelativePositions(Positions):
    """score + a learned bias per head and distance bucket: exact for small distances, logarithmic for large ones."""

    def __init__(self, n_heads: int, two_sided: bool, n_buckets: int = 32, max_distance: int = 128) -> None:
        super().__init__()
        self.two_sided, self.n_buckets, self.max_distance = two_sided, n_buckets, max_distance
        self.table = nn.Parameter(torch.zeros(n_buckets, n_heads))

    def bucket(self, offset: Tensor) -> Tensor:
        """The bucket of key position − query position."""
        n = self.n_buckets
        if self.two_sided:
            n //= 2
            side = (offset > 0).long() * n
            distance = offset.abs()
        else:
            side = torch.zeros_like(offset)
            distance = (-offset).clamp(min=0)
        exact = n // 2
        ratio = torch.log(distance.clamp(min=1).float() / exact) / math.log(self.max_distance / exact)
        far = (exact + (ratio * (n - exact)).long()).clamp(max=n - 1)
        return side + torch.where(distance < exact, distance, far)

    def bias(self, n_queries: int, n_keys: int) -> Tensor | None:
        buckets_LM = self.bucket(distances(n_queries, n_keys, self.table.device))
        return F.embedding(buckets_LM, self.table).permute(2, 0, 1)


def build_positions(kind: Position, d_model: int, n_heads: int, max_positions: int, two_sided: bool) -> Positions:
    """`two_sided`: the attention is bidirectional, as in an encoder."""
    match kind:
        case "sinusoidal":
            return SinusoidalPositions(d_model)
        case "learned":
            return LearnedPositions(d_model, max_positions)
        case "rotary":
            return RotaryPositions(d_model // n_heads)
        case "alibi":
            return AlibiPositions(n_heads, two_sided)
        case "relative":
            return RelativePositions(n_heads, two_sided)
        case "none":
            return Positions()
        case _:
            assert_never(kind)
