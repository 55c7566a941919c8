"""The C++ kernels and their PyTorch fallbacks give the same numbers."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.kernels.loader import NativeLibrary, library
from regard.kernels.training import TRAINING
from regard.train.loss_kernels import SliceLoss, native_slice_loss, paired_slice_loss, plain, slice_loss


@pytest.fixture(scope="module")
def native() -> NativeLibrary:
    compiled = library(TRAINING)
    assert compiled is not None, "this test needs a C++ compiler"
    return compiled


def check_same(ours: SliceLoss, fallback: SliceLoss, tolerance: float) -> None:
    torch.testing.assert_close(ours.grad_CV.float(), fallback.grad_CV.float(), rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(ours.logp_right_C, fallback.logp_right_C, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(ours.log_sum_C, fallback.log_sum_C, rtol=1e-5, atol=1e-5)
    if fallback.divergence is not None:
        torch.testing.assert_close(ours.divergence, fallback.divergence, rtol=1e-4, atol=1e-4)


@given(
    seed=st.integers(0, 1000),
    pairs=st.integers(1, 20),
    size=st.integers(2, 400),
    spread=st.sampled_from([0.1, 3.0, 40.0]),
    strength=st.sampled_from([0.0, 0.5, 2.5]),
    dtype=st.sampled_from([torch.float32, torch.bfloat16]),
)
@settings(deadline=None, max_examples=60)
def test_native_equals_pytorch(
    native: NativeLibrary, seed: int, pairs: int, size: int, spread: float, strength: float, dtype: torch.dtype
) -> None:
    torch.manual_seed(seed)
    logits = (torch.randn(2 * pairs, size) * spread).to(dtype)
    targets = torch.randint(size, (2 * pairs,))
    if strength:
        fallback = paired_slice_loss(logits.clone(), targets, 0.9, strength)
    else:
        fallback = plain(logits.clone(), targets, 0.9)
    ours = native_slice_loss(native, logits.clone(), targets, 0.9, strength)
    # bf16 keeps eight bits, and the two may round to different neighbours.
    check_same(ours, fallback, 2e-5 * (1 + spread) if dtype == torch.float32 else 0.02)


def test_extreme_logits_stay_finite(native: NativeLibrary) -> None:
    logits = torch.tensor([[1e4, -1e4, 0.0], [-1e30, 0.0, 1e30]])
    found = native_slice_loss(native, logits, torch.tensor([0, 2]), 1.0, 0.0)
    torch.testing.assert_close(found.grad_CV, torch.zeros(2, 3))
    torch.testing.assert_close(found.logp_right_C, torch.zeros(2))


def test_nan_is_not_hidden(native: NativeLibrary) -> None:
    logits = torch.zeros(1, 64)
    logits[0, 5] = float("nan")
    assert not native_slice_loss(native, logits, torch.tensor([3]), 1.0, 0.0).logp_right_C.isfinite().all()


def test_float64_uses_the_fallback() -> None:
    logits = torch.randn(4, 9, dtype=torch.float64)
    assert slice_loss(logits, torch.zeros(4, dtype=torch.int64), 0.9, 0.0).grad_CV.dtype == torch.float64


def test_it_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    library.cache_clear()
    monkeypatch.setenv("REGARD_NATIVE", "0")
    try:
        assert library(TRAINING) is None
        found = slice_loss(torch.zeros(2, 4), torch.tensor([0, 1]), 1.0, 0.0)
        torch.testing.assert_close(found.grad_CV[0], torch.tensor([-0.75, 0.25, 0.25, 0.25]))
    finally:
        library.cache_clear()
