"""Where a token stands: six ways of telling the model.

    sinusoidal  added to the embedding, fixed            Vaswani et al. 2017, section 3.5
    learned     added to the embedding, one row a place  Gehring et al. 2017
    rotary      turns queries and keys                   Su et al. 2021
    alibi       added to the scores, linear in distance  Press et al. 2021 (an encoder: steeper to the right)
    relative    added to the scores, learned by bucket   Raffel et al. 2020 (T5), section 2.1
    none        nothing

One class each, with the same three methods: a scheme overrides the one it acts through and leaves the others.
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

YARN_OFTEN, YARN_ONCE = 32, 1  # turns within the longest text that was trained on


class Positions(nn.Module):
    """No positions at all, and the interface of the others. `start` is the place of the first token."""

    def add(self, x_BLD: Tensor, start: int) -> Tensor:
        return x_BLD

    def rotate(self, x_BHLK: Tensor, start: int) -> Tensor:
        return x_BHLK

    def bias(self, n_queries: int, n_keys: int) -> Tensor | None:
        """bias_HLM added to the scores; the last query stands at the last key."""
        return None


def sinusoids(length: int, d_model: int) -> Tensor:
    """table_LD: sin and cos of position / 10000^(2i/d_model), in turn."""
    place = torch.arange(length, dtype=torch.float64)[:, None]
    rate = torch.exp(torch.arange(0, d_model, 2, dtype=torch.float64) * (-math.log(10_000.0) / d_model))
    table = torch.zeros(length, d_model, dtype=torch.float64)
    table[:, 0::2] = torch.sin(place * rate)
    table[:, 1::2] = torch.cos(place * rate)[:, : d_model // 2]
    return table


class SinusoidalPositions(Positions):
    """x + PE. The table grows when a longer sentence comes: there is no longest one."""

    table_LD: Tensor

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.register_buffer("table_LD", sinusoids(256, d_model).float(), persistent=False)

    def add(self, x_BLD: Tensor, start: int) -> Tensor:
        end = start + x_BLD.shape[1]
        if end > len(self.table_LD):
            grown = sinusoids(max(end, 2 * len(self.table_LD)), x_BLD.shape[2])
            self.table_LD = grown.to(self.table_LD)
        return x_BLD + self.table_LD[start:end].to(x_BLD.dtype)


class LearnedPositions(Positions):
    """x + one trained vector per place, up to a fixed longest sentence."""

    def __init__(self, d_model: int, max_positions: int) -> None:
        super().__init__()
        self.table_LD = nn.Parameter(torch.zeros(max_positions, d_model))

    def add(self, x_BLD: Tensor, start: int) -> Tensor:
        end = start + x_BLD.shape[1]
        self.check(end)
        return x_BLD + self.table_LD[start:end].to(x_BLD.dtype)

    def check(self, length: int) -> None:
        if length > len(self.table_LD):
            raise ValueError(f"{length} tokens, but this model has learned positions for only {len(self.table_LD)}")


class RotaryPositions(Positions):
    """Turn each pair of dimensions by an angle proportional to the place: q·k then depends on the offset only.

    `stretch` above 1 is YaRN (Peng et al. 2023, section 3.4): a model trained on texts of up to `length` tokens reads
    ones `stretch` times as long. Pairs that turn often within `length` keep their pace, those that never turn once
    slow down `stretch` times, and those between are mixed; `sharpness` is what the scores are to be multiplied by.
    """

    def __init__(self, head_size: int, base: float = 10_000.0, stretch: float = 1.0, length: int = 4096) -> None:
        super().__init__()
        self.head_size, self.base, self.stretch, self.length = head_size, base, stretch, length
        self.sharpness = (0.1 * math.log(stretch) + 1) ** 2

    def rates(self, like: Tensor) -> Tensor:
        """rate_K: by how much each pair turns from one place to the next."""
        half = self.head_size // 2
        pair_K = torch.arange(half, device=like.device, dtype=like.dtype)
        rate_K = self.base ** (-pair_K / half)
        if self.stretch == 1.0:
            return rate_K
        first = max(math.floor(self.pair_that_turns(YARN_OFTEN)), 0)
        last = min(math.ceil(self.pair_that_turns(YARN_ONCE)), self.head_size - 1)
        slow_K = ((pair_K - first) / max(last - first, 0.001)).clamp(0, 1)
        return rate_K * (1 - slow_K) + rate_K / self.stretch * slow_K

    def pair_that_turns(self, times: int) -> float:
        """Which pair, counted from the fastest, turns so many times within `length`."""
        return self.head_size / 2 * math.log(self.length / (times * 2 * math.pi)) / math.log(self.base)

    def turns(self, place_L: Tensor) -> tuple[Tensor, Tensor]:
        """The cosine and the sine of each pair's angle, an LK table each."""
        angle_LK = place_L[:, None] * self.rates(place_L)
        return angle_LK.cos(), angle_LK.sin()

    def rotate(self, x_BHLK: Tensor, start: int) -> Tensor:
        exact = torch.promote_types(x_BHLK.dtype, torch.float32)
        place_L = torch.arange(start, start + x_BHLK.shape[2], device=x_BHLK.device, dtype=exact)
        cos_LK, sin_LK = self.turns(place_L)
        return (rotate if fits(x_BHLK) else rotate_plainly)(x_BHLK, cos_LK, sin_LK)


def rotate_plainly(x_BHLK: Tensor, cos_LK: Tensor, sin_LK: Tensor) -> Tensor:
    """What rotation.py does in one pass."""
    half, cos, sin = x_BHLK.shape[-1] // 2, cos_LK.to(x_BHLK.dtype), sin_LK.to(x_BHLK.dtype)
    first, second = x_BHLK[..., :half], x_BHLK[..., half:]
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


def distances(n_queries: int, n_keys: int, device: torch.device | None) -> Tensor:
    """key place − query place, as an LM table."""
    queries = torch.arange(n_keys - n_queries, n_keys, device=device)
    return torch.arange(n_keys, device=device)[None, :] - queries[:, None]


class AlibiPositions(Positions):
    """score − slope · distance, one slope a head: 2^(−8/H), 2^(−16/H), …

    The paper has only the past. An encoder looks both ways, and with the same slope on both sides it could not
    tell a sentence from its mirror image; so what follows is twice as far away as what precedes.
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
    """score + a trained number per head and bucket of distances; near ones exact, far ones by logarithm."""

    def __init__(self, n_heads: int, two_sided: bool, n_buckets: int = 32, max_distance: int = 128) -> None:
        super().__init__()
        self.two_sided, self.n_buckets, self.max_distance = two_sided, n_buckets, max_distance
        self.table = nn.Parameter(torch.zeros(n_buckets, n_heads))

    def bucket(self, offset: Tensor) -> Tensor:
        """The bucket of key place − query place."""
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
    """`two_sided`: the attention looks both ways, as an encoder's does."""
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
