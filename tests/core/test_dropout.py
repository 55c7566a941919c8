"""Dropout from random bytes: uniform, independent and reproducible."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.core.dropout import Dropout, byte_threshold, inverse_keep_rate, random_bytes

N = 400_000


def dropped(p: float, n: int = N, seed: int = 0) -> tuple[Dropout, torch.Tensor]:
    torch.manual_seed(seed)
    dropout = Dropout(p)
    return dropout, dropout(torch.ones(n, dtype=torch.float64))


@pytest.mark.parametrize("p", [0.001, 0.1, 0.3, 0.5, 0.9, 0.999])
def test_rate_and_expectation(p: float) -> None:
    dropout, y = dropped(p)
    rate = dropout.rate
    sigma = math.sqrt(rate * (1 - rate) / N)
    assert (y == 0).double().mean().item() == pytest.approx(rate, abs=5 * sigma)
    assert y.mean().item() == pytest.approx(1, abs=5 * sigma / (1 - rate))


@given(p=st.floats(0, 0.9999))
@settings(max_examples=60, deadline=None)
def test_the_rate_is_the_nearest_multiple_of_a_256th(p: float) -> None:
    rate = Dropout(p).rate
    assert rate < 1
    assert (rate == 0) == (p == 0)
    assert abs(rate - p) <= (1 / 512 if 1 / 512 <= p <= 1 - 3 / 512 else 1 / 256)


@pytest.mark.parametrize(
    ("p", "byte"), [(0.0, 0), (1e-6, 1), (0.1, 26), (26 / 256, 26), (0.3, 77), (0.5, 128), (1.0, 255)]
)
def test_a_probability_becomes_a_byte(p: float, byte: int) -> None:
    assert byte_threshold(p) == byte
    assert byte_threshold(byte / 256) == byte
    assert inverse_keep_rate(p) == 256 / (256 - byte)


@pytest.mark.parametrize("p", [-0.1, 1.1, 26, math.nan])
def test_values_outside_0_to_1_are_refused(p: float) -> None:
    with pytest.raises(ValueError, match="from 0 to 1"):
        Dropout(p)


def test_kept_elements_are_scaled_by_the_exact_rate() -> None:
    _, y = dropped(0.1)
    assert set(y.unique().tolist()) == {0.0, 256 / (256 - 26)}


def test_nothing_happens_in_eval_or_at_zero() -> None:
    x = torch.randn(50)
    assert Dropout(0.5).eval()(x) is x
    assert Dropout(0.0)(x) is x
    assert not torch.equal(Dropout(0.5)(x), x)


def test_backward_uses_the_mask_of_forward() -> None:
    torch.manual_seed(0)
    x = (torch.randn(37, 11, dtype=torch.float64) + 10).requires_grad_()
    y = Dropout(0.3)(x)
    scale = 256 / (256 - 77)
    y.sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad, (y != 0).double() * scale)
    assert 0 < (y == 0).sum() < y.numel()


def test_backward_scales_the_incoming_gradient() -> None:
    torch.manual_seed(0)
    x = torch.ones(1000, dtype=torch.float64, requires_grad=True)
    y = Dropout(0.5)(x)
    upstream = torch.randn(1000, dtype=torch.float64)
    y.backward(upstream)
    assert x.grad is not None
    assert torch.equal(x.grad, upstream * y.detach())


def test_the_input_is_unchanged() -> None:
    x = torch.ones(100)
    Dropout(0.5)(x)
    assert torch.equal(x, torch.ones(100))


def test_the_same_seed_gives_the_same_mask_and_the_next_call_another() -> None:
    _, first = dropped(0.5, 1000, seed=4)
    dropout, again = dropped(0.5, 1000, seed=4)
    assert torch.equal(first, again)
    assert not torch.equal(first, dropout(torch.ones(1000, dtype=torch.float64)))
    assert not torch.equal(first, dropped(0.5, 1000, seed=5)[1])


@pytest.mark.parametrize("lag", [1, 2, 3, 4, 7, 8, 9, 16, 64])
def test_neighbours_are_independent(lag: int) -> None:
    _, y = dropped(0.3)
    keep = (y != 0).double()
    keep = keep - keep.mean()
    correlation = (keep[lag:] * keep[:-lag]).mean() / keep.square().mean()
    assert abs(correlation.item()) < 5 / math.sqrt(N)


def test_every_byte_of_every_word_is_uniform() -> None:
    """Chi-squared in each of the eight lanes; 255 degrees of freedom, so 255 ± 5 · sqrt(510)."""
    torch.manual_seed(0)
    lanes = random_bytes(8 * 50_000, torch.device("cpu")).view(-1, 8)
    for lane in lanes.unbind(1):
        counts = torch.bincount(lane.long(), minlength=256).double()
        expected = 50_000 / 256
        chi_squared = ((counts - expected) ** 2 / expected).sum().item()
        assert abs(chi_squared - 255) < 5 * math.sqrt(510)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(), (1,), (7,), (3, 5, 13), (0, 4), (8, 8)])
def test_any_precision_and_size(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    x = torch.ones(shape, dtype=dtype, requires_grad=True)
    y = Dropout(0.5)(x)
    assert (y.dtype, y.shape) == (dtype, x.shape)
    assert ((y == 0) | (y == 2)).all()
    y.sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad, y.detach())


def test_a_transposed_view() -> None:
    torch.manual_seed(0)
    x = torch.arange(1.0, 1001.0).view(20, 50).t()
    y = Dropout(0.5)(x)
    assert torch.equal(y, torch.where(y == 0, 0, 2 * x))
