"""Add & norm in C++ equals PyTorch's, forward and backward, and its dropout is correct."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from regard.core.residual import Residual
from regard.core.taps import hook_taps
from regard.kernels.loader import library
from regard.kernels.training import TRAINING


@pytest.fixture(autouse=True)
def _compiled() -> None:
    assert library(TRAINING) is not None, "this test needs a C++ compiler"


def both(block: Residual, x: Tensor, change: Tensor, weight: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    """Output and gradients, fused and step by step (selected by a hook)."""
    results = []
    for fused in (True, False):
        leaves = [x.clone().requires_grad_(), change.clone().requires_grad_()]
        block.zero_grad()
        assert block.can_fuse(x, change)
        if fused:
            out = block.after(*leaves)
        else:
            with hook_taps(block, {"resid": lambda path, value: None}):
                assert not block.can_fuse(x, change)
                out = block.after(*leaves)
        (out.float() * weight).sum().backward()
        gradients = [leaf.grad for leaf in leaves] + [p.grad for p in block.parameters()]
        assert all(gradient is not None for gradient in gradients)
        results.append([out.detach(), *(gradient.clone() for gradient in gradients if gradient is not None)])
    return results[0], results[1]


@given(
    seed=st.integers(0, 1000),
    rows=st.integers(1, 40),
    size=st.integers(8, 130),  # of fewer the variance can be all rounding error
    dtype=st.sampled_from([torch.float32, torch.bfloat16]),
)
@settings(deadline=None, max_examples=40)
def test_fused_equals_step_by_step(seed: int, rows: int, size: int, dtype: torch.dtype) -> None:
    torch.manual_seed(seed)
    block = Residual(size, "post", "layernorm", 0.0)
    with torch.no_grad():
        for parameter in block.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    x, change, weight = torch.randn(rows, size).to(dtype), torch.randn(rows, size).to(dtype), torch.randn(rows, size)
    tolerance = 2e-4 if dtype == torch.float32 else 0.06
    for ours, theirs in zip(*both(block, x, change, weight), strict=True):
        assert ours.dtype == theirs.dtype
        scale = float(theirs.float().abs().max()) + 1
        torch.testing.assert_close(ours.float(), theirs.float(), rtol=0, atol=tolerance * scale)


def dropped(block: Residual, rows: int, size: int) -> Tensor:
    """The dropout factors of one pass, read from the gradient: 0, or the scale."""
    change = torch.zeros(rows, size, requires_grad=True)
    x = torch.randn(rows, size, requires_grad=True)
    (block.after(x, change) * torch.randn(rows, size)).sum().backward()
    assert x.grad is not None
    assert change.grad is not None
    return change.grad / x.grad


def test_dropout_has_its_rate_and_scale() -> None:
    torch.manual_seed(1)
    block = Residual(64, "post", "layernorm", 0.3)
    factors = dropped(block, 2000, 64)
    kept = factors.abs() > 0.5
    rate = 77 / 256
    assert abs(1 - kept.float().mean().item() - rate) < 0.006
    torch.testing.assert_close(factors[kept], torch.full_like(factors[kept], 1 / (1 - rate)), rtol=1e-3, atol=1e-3)
    centred = kept.float() - kept.float().mean()
    for other in (centred.roll(1, 0), centred.roll(1, 1), centred.roll(8, 1)):
        assert abs((centred * other).mean() / centred.var()) < 0.02


def test_forward_and_backward_have_the_same_mask() -> None:
    torch.manual_seed(2)
    block = Residual(48, "post", "layernorm", 0.5)
    x, change = torch.zeros(30, 48), torch.randn(30, 48, requires_grad=True)
    weight = torch.randn(30, 48)
    state = torch.get_rng_state()
    (block.after(x, change) * weight).sum().backward()
    assert change.grad is not None
    # The same mask with one element changed: where the gradient is 0, the output must not move.
    nowhere = (change.grad == 0).nonzero()
    assert len(nowhere) > 300
    moved = change.detach().clone()
    moved[tuple(nowhere.T)] += 1.0
    torch.set_rng_state(state)
    again = block.after(x, moved)
    torch.set_rng_state(state)
    torch.testing.assert_close(again, block.after(x, change.detach()))


def test_masks_differ_and_repeat_with_the_seed() -> None:
    block = Residual(32, "post", "layernorm", 0.5)
    torch.manual_seed(3)
    first, second = dropped(block, 10, 32) != 0, dropped(block, 10, 32) != 0
    torch.manual_seed(3)
    assert torch.equal(dropped(block, 10, 32) != 0, first)
    assert not torch.equal(first, second)


def test_nothing_is_dropped_outside_training() -> None:
    block = Residual(16, "post", "layernorm", 0.5).eval()
    x, change = torch.randn(5, 16), torch.randn(5, 16)
    torch.testing.assert_close(block.after(x, change), block.norm(x + change))


def test_pre_norm_and_rms_norm_are_computed_step_by_step() -> None:
    x = torch.randn(2, 8)
    assert not Residual(8, "pre", "layernorm", 0.0).can_fuse(x, x)
    assert not Residual(8, "post", "rmsnorm", 0.0).can_fuse(x, x)
    assert not Residual(8, "post", "layernorm", 0.0).double().can_fuse(x.double(), x.double())


@pytest.mark.parametrize(
    "replaced",
    [torch.randn(6, 16, dtype=torch.float64), torch.tensor(0.5), torch.randn(16)],
    ids=["double", "scalar", "row"],
)
def test_a_value_from_a_hook_is_added_as_in_pytorch(replaced: Tensor) -> None:
    """An intervention may replace the value by anything that can be added; the kernel must not be used for it."""
    block = Residual(16, "post", "layernorm", 0.0)
    x = torch.randn(6, 16)
    assert not block.can_fuse(x, replaced)
    expected = torch.nn.functional.layer_norm(x + replaced.float(), (16,))
    torch.testing.assert_close(block.after(x, replaced.to(x.dtype) if replaced.dim() == 2 else replaced), expected)
