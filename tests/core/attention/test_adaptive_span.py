"""Adaptive spans: the formula word by word, what is not computed, and what training asks of them."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from regard.config.attention import AdaptiveSpanConfig
from regard.core.attention.adaptive_span import AdaptiveSpanAttention, spans
from regard.core.auxiliary import auxiliary_loss, constrain
from regard.core.masks import CausalMask
from regard.core.taps import record


def build(max_span: int, ramp: int, shares: tuple[float, ...]) -> AdaptiveSpanAttention:
    torch.manual_seed(0)
    config = AdaptiveSpanConfig(max_span=max_span, ramp=ramp, span_loss=0.5)
    made = AdaptiveSpanAttention(8, len(shares), config=config).double()
    for parameter in made.parameters():
        nn.init.normal_(parameter, std=0.5)
    with torch.no_grad():
        made.span_H.copy_(torch.tensor(shares, dtype=torch.float64))
    return made


def test_weights_follow_the_formula() -> None:
    made, length = build(10, 4, (0.1, 0.35)), 12
    x_BLD = torch.randn(1, length, 8, dtype=torch.float64)
    with record(made) as seen:
        made(x_BLD, mask=CausalMask(length, length))
    for head, span in enumerate((1.0, 3.5)):
        for query in range(length):
            scores = seen["scores"][0, head, query].tolist()
            ramp = [min(max((4 + span - (query - key)) / 4, 0), 1) for key in range(query + 1)]
            parts = [m * math.exp(score) for m, score in zip(ramp, scores, strict=False)]
            expected = [part / sum(parts) for part in parts] + [0.0] * (length - query - 1)
            assert seen["weights"][0, head, query].tolist() == pytest.approx(expected, abs=1e-12)


def test_keys_beyond_the_longest_span_are_not_computed() -> None:
    """A value that is not a number would spoil whatever it is multiplied with, even by zero."""
    made, length = build(1000, 8, (0.01, 0.1)), 300
    assert made.reach == 128  # 100 + 8, rounded up
    x_BLD = torch.randn(1, length, 8, dtype=torch.float64)
    x_BLD[:, :20] = math.nan
    out = made(x_BLD, mask=CausalMask(length, length))
    assert out[:, 256:].isfinite().all()  # the chunks of queries whose keys begin at 129
    with torch.no_grad():
        made.span_H.zero_()
    assert made.reach == 64


def test_the_loss_is_the_mean_span_and_the_limits_hold() -> None:
    made = build(10, 4, (0.2, 0.5))
    stack = nn.Sequential(made, build(10, 4, (0.1, 0.3)))
    loss = auxiliary_loss(stack)
    assert loss is not None
    assert loss.item() == pytest.approx(0.5 * (3.5 + 2.0))
    (gradient,) = torch.autograd.grad(loss, made.span_H)
    assert gradient.tolist() == pytest.approx([2.5, 2.5])
    with torch.no_grad():
        made.span_H.copy_(torch.tensor([-0.5, 1.5]))
    constrain(stack)
    assert spans(stack) == {"0": (0.0, 10.0), "1": pytest.approx((1.0, 3.0))}
