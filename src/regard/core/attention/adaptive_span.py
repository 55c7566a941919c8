"""Adaptive attention span (Sukhbaatar et al. 2019): every head learns how far back it looks.

A head with span z weighs a key at distance d by m(d) = clamp((R + z − d) / R, 0, 1): weights = softmax(scores) · m,
divided by their sum. The mean of the spans is added to the loss, so that only a span that pays stays long. After each
step of the optimiser the spans are clamped to 0 … max_span; keys beyond the largest span of a layer are not computed,
and a cache drops them. The parameter is z / max_span, as in the authors' code. Deviation: the paper's spans may depend
on the token (section 2.2, dynamic span); these do not.

Shapes: B batch, L query length, M memory length, H heads, K head size, P distances.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regard.config.attention import AdaptiveSpanConfig
from regard.core.attention.chunks import Plan, chunked_attention
from regard.core.attention.patterned import PatternedAttention, masked_softmax
from regard.core.attention.patterns import Pattern, Piece
from regard.core.auxiliary import AuxiliaryLoss, Constrained

STEP = 64  # the reach grows in steps, so that plans are kept while spans move a little


@dataclass(frozen=True)
class Past(Pattern):
    """0 ≤ q − k < reach."""

    reach: int

    def sees(self, query: Tensor, key: Tensor) -> Tensor:
        offset = query - key
        return (offset >= 0) & (offset < self.reach)

    def pieces(self, length: int, n_queries: int) -> Iterator[Piece]:
        for start in range(0, length, n_queries):
            stop = min(start + n_queries, length)
            yield Piece(slice(start, stop), slice(max(start - self.reach + 1, 0), stop), self.sees)

    def needed(self, key: Tensor, length: int) -> Tensor:
        return key > length - self.reach


class AdaptiveSpanAttention(PatternedAttention, AuxiliaryLoss, Constrained):
    """weights = softmax(q kᵀ · scale) · m(d), divided by their sum."""

    def __init__(
        self, d_model: int, n_heads: int, dropout: float = 0.0, *, config: AdaptiveSpanConfig, **shape: Any
    ) -> None:
        super().__init__(d_model, n_heads, dropout, **shape)
        self.max_span, self.ramp, self.span_loss = config.max_span, config.ramp, config.span_loss
        self.span_H = nn.Parameter(torch.full((n_heads,), config.initial_span / config.max_span))

    def spans(self) -> Tensor:
        """z_H, in tokens."""
        return self.span_H.clamp(0, 1) * self.max_span

    @property
    def reach(self) -> int:
        """How many tokens any head sees, itself included."""
        farthest = math.ceil(float(self.spans().detach().max()) + self.ramp)
        return min(-(-farthest // STEP) * STEP, self.max_span)

    def head_patterns(self) -> tuple[Pattern, ...]:
        return (Past(self.reach),) * self.n_heads

    def ramp_at(self, distance: Tensor) -> Tensor:
        """m: the spans' dimension comes first."""
        spans = self.spans().view(-1, *[1] * distance.dim())
        return ((self.ramp + spans - distance) / self.ramp).clamp(0, 1)

    def dense(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor, distance_LM: Tensor) -> Tensor:
        """The definition."""
        weights_BHLM = masked_softmax(self.scores((q * self.scale) @ k.mT), mask)
        weights_BHLM = weights_BHLM * self.ramp_at(distance_LM).to(q.dtype)
        # A weight that is not zero is at distance 0 at the latest, unless the mask hides the query from itself.
        total_BHL1 = weights_BHLM.sum(-1, keepdim=True)
        weights_BHLM = weights_BHLM / total_BHL1.masked_fill(total_BHL1 == 0, 1.0)
        return self.dropout(self.weights(weights_BHLM)) @ v  # type: ignore[no-any-return]

    def by_chunks(self, q: Tensor, k: Tensor, v: Tensor, plan: Plan, mask: Tensor | None) -> Tensor:
        """log m as a bias of the scores: the same numbers, as the softmax's own divisor cancels."""
        ramp_HP = self.ramp_at(torch.arange(self.reach, device=q.device))
        hidden = ramp_HP == 0
        log_HP = ramp_HP.masked_fill(hidden, 1.0).log().masked_fill(hidden, -math.inf)
        log_HP = log_HP.to(torch.promote_types(q.dtype, torch.float32))
        return chunked_attention(q, k, v, plan, mask, self.scale, dropout=self.dropout.active_p, by_distance_HP=log_HP)

    def auxiliary_loss(self) -> Tensor | None:
        """λ times the mean span."""
        return self.span_loss * self.spans().mean() if self.span_loss else None

    @torch.no_grad()
    def constrain(self) -> None:
        self.span_H.clamp_(0, 1)


def spans(model: nn.Module) -> dict[str, tuple[float, ...]]:
    """The spans of each head in tokens, by the attention's position in the model."""
    return {
        name: tuple(module.spans().tolist())
        for name, module in model.named_modules()
        if isinstance(module, AdaptiveSpanAttention)
    }
