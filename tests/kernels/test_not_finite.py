"""NaN and infinity in the C++ kernels: what PyTorch's operators give is NaN or infinite here, and nothing else is."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.core.attention.reference import reference_attention
from regard.core.attention.short import short_attention
from regard.core.feedforward import relu_dropout
from regard.core.int8 import int8_linear
from regard.core.positions import rotate_plainly
from regard.core.residual import Residual
from regard.core.rotation import rotate
from regard.core.taps import hook_taps
from regard.kernels.loader import library
from regard.kernels.training import TRAINING
from regard.train.loss_kernels import native_slice_loss, paired_slice_loss, plain

NAN, INF = math.nan, math.inf
ODD_NANS = (0x7F800001, 0x7FFFFFFF, -1)  # bits of NaNs that rounding by integer arithmetic turns into ∞ or 0
dtypes = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])


@pytest.fixture(autouse=True)
def _compiled() -> None:
    assert library(TRAINING) is not None, "this test needs a C++ compiler"


def check_same(ours: Tensor | None, theirs: Tensor | None, tolerance: float) -> None:
    """Equal, NaN where the other is NaN and infinite where it is infinite."""
    assert ours is not None
    assert theirs is not None
    torch.testing.assert_close(ours.float(), theirs.float(), rtol=tolerance, atol=tolerance, equal_nan=True)


def tolerance(dtype: torch.dtype) -> float:
    return 1e-4 if dtype == torch.float32 else 0.05


@dtypes
@pytest.mark.parametrize("wrong", [NAN, INF, -INF])
@pytest.mark.parametrize("which", ["q", "k", "v"])
@pytest.mark.parametrize("visible", [True, False])
@pytest.mark.parametrize("keys", [7, 20])
def test_attention(dtype: torch.dtype, wrong: float, which: str, visible: bool, keys: int) -> None:
    """A wrong number in the query, in a key or in a value, which the mask may hide."""
    torch.manual_seed(1)
    inputs = {name: torch.randn(2, 2, 5 if name == "q" else keys, 8).to(dtype) for name in "qkv"}
    inputs[which][0, 1, 3, 2] = wrong
    mask = torch.ones(5, keys, dtype=torch.bool)
    mask[:, 3] = visible
    grad, results = torch.randn(2, 2, 5, 8).to(dtype), []
    for attend in (short_attention, lambda *given: reference_attention(*given)[0]):
        leaves = [x.clone().requires_grad_() for x in inputs.values()]
        out = attend(*leaves, mask, 0.3)
        results.append([out, *torch.autograd.grad(out, leaves, grad)])
    assert visible or which != "k" or results[0][0].isfinite().all()
    for ours, theirs in zip(*results, strict=True):
        check_same(ours, theirs, tolerance(dtype))


@dtypes
def test_attention_to_nothing(dtype: torch.dtype) -> None:
    q, k, v = (torch.randn(1, 2, 3, 4).to(dtype) for _ in range(3))
    mask = torch.tensor([[True, False, True], [False] * 3, [True] * 3])
    out = short_attention(q, k, v, mask, 0.5)
    assert out[:, :, 1].isnan().all()
    check_same(out, reference_attention(q, k, v, mask, 0.5)[0], tolerance(dtype))


@dtypes
@pytest.mark.parametrize("size", [3, 40, 200])
@pytest.mark.parametrize("strength", [0.0, 1.5])
@pytest.mark.parametrize("wrong", [NAN, INF])
def test_loss(dtype: torch.dtype, size: int, strength: float, wrong: float) -> None:
    native = library(TRAINING)
    assert native is not None
    torch.manual_seed(2)
    logits, targets = torch.randn(6, size).to(dtype), torch.randint(size, (6,))
    logits[0, 0] = logits[4, size - 1] = wrong
    ours = native_slice_loss(native, logits.clone(), targets, 0.9, strength)
    theirs = paired_slice_loss(logits, targets, 0.9, strength) if strength else plain(logits, targets, 0.9)
    check_same(ours.grad_CV, theirs.grad_CV, tolerance(dtype))
    check_same(ours.logp_right_C, theirs.logp_right_C, 1e-4)
    assert torch.equal(ours.log_sum_C.isnan(), theirs.log_sum_C.isnan())
    assert ours.grad_CV[0].isnan().all()
    assert ours.grad_CV[2].isfinite().all()


@dtypes
def test_loss_of_a_row_without_any_probability(dtype: torch.dtype) -> None:
    native = library(TRAINING)
    assert native is not None
    logits = torch.full((1, 50), -INF, dtype=dtype)
    theirs = plain(logits.clone(), torch.tensor([3]), 1.0)
    ours = native_slice_loss(native, logits, torch.tensor([3]), 1.0, 0.0)
    assert theirs.grad_CV.isnan().all()
    assert ours.grad_CV.isnan().all()
    assert ours.logp_right_C.isnan().all()


@dtypes
@pytest.mark.parametrize("wrong", [NAN, INF, -INF])
@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("place", [0, 17])
def test_add_and_norm(dtype: torch.dtype, wrong: float, which: int, place: int) -> None:
    torch.manual_seed(3)
    block, inputs = Residual(18, "post", "layernorm", 0.0), [torch.randn(4, 18).to(dtype) for _ in range(2)]
    inputs[which][2, place] = wrong
    results, grad = [], torch.randn(4, 18).to(dtype)
    for fused in (True, False):
        leaves = [x.clone().requires_grad_() for x in inputs]
        with hook_taps(block, {} if fused else {"resid": lambda path, value: None}):
            assert block.can_fuse(*inputs) == fused
            out = block.after(*leaves)
        results.append([out, *torch.autograd.grad(out, [*leaves, *block.parameters()], grad)])
    assert results[0][0][2].isnan().all()
    for ours, theirs in zip(*results, strict=True):
        check_same(ours, theirs, tolerance(dtype))


@dtypes
def test_relu_and_dropout(dtype: torch.dtype) -> None:
    torch.manual_seed(4)
    x = torch.randn(9, 33).to(dtype)
    x[0, 0] = x[5, 32] = NAN
    x[1, 1], x[2, 2] = INF, -INF
    x.requires_grad_()
    out = relu_dropout(x, 1 / 256)
    assert torch.equal(out.isnan(), F.relu(x).isnan() | (x.isinf() & (x > 0) & out.isnan()))  # ∞ · 0 is NaN, too
    assert out[2, 2] == 0
    (grad,) = torch.autograd.grad(out, x, torch.ones_like(out))
    (expected,) = torch.autograd.grad(F.relu(x), x, torch.ones_like(out))
    assert float(grad[0, 0]) == pytest.approx(256 / 255, rel=0.01)  # passes, as in PyTorch
    assert float(expected[0, 0]) == 1
    assert torch.equal(grad != 0, (expected != 0) & (out != 0))


@dtypes
def test_rotation(dtype: torch.dtype) -> None:
    x, angles = torch.randn(2, 2, 3, 8).to(dtype), torch.rand(3, 4)
    x[0, 1, 2, 3], x[1, 0, 0, 7] = NAN, INF
    check_same(rotate(x, angles.cos(), angles.sin()), rotate_plainly(x, angles.cos(), angles.sin()), tolerance(dtype))


@dtypes
@pytest.mark.parametrize("wrong", [NAN, INF, -INF])
def test_int8_products(dtype: torch.dtype, wrong: float) -> None:
    """What is NaN or infinite in PyTorch's product is so here; the other rows and columns are finite."""
    torch.manual_seed(5)
    x, weight = torch.randn(70, 20).to(dtype), torch.randn(30, 20)
    x[5, 3], weight[7, 19] = wrong, wrong
    exact = F.linear(x.float(), weight)
    out = int8_linear(x, weight, None)
    assert torch.equal(out.isfinite(), exact.isfinite())
    assert out.isfinite().sum() == 69 * 29


@pytest.mark.parametrize("bits", ODD_NANS)
def test_every_nan_is_nan_in_bf16(bits: int) -> None:
    """A float32 NaN whatever its bits, rounded to bf16 by a kernel: a bias that is added to a product."""
    odd = torch.tensor([bits], dtype=torch.int64).to(torch.int32).view(torch.float32)
    assert odd.isnan().all()
    x, weight = torch.randn(70, 20).bfloat16(), torch.randn(19, 20)
    out = int8_linear(x, weight, odd.expand(19).contiguous())
    assert out.isnan().all()
    angles = odd.expand(1, 4).contiguous()
    assert rotate(torch.ones(1, 1, 1, 8).bfloat16(), angles, angles).isnan().all()
