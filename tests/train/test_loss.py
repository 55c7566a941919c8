"""The fused loss equals what autograd gets from the textbook formulas."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from regard.train.loss import vocabulary_loss


def plain(hidden: Tensor, weight: Tensor, targets: Tensor, smoothing: float, r_drop: float) -> Tensor:
    logits = hidden @ weight.T
    loss = F.cross_entropy(logits, targets, label_smoothing=smoothing, reduction="sum")
    if r_drop:
        p, q = logits.log_softmax(-1).chunk(2)
        both = F.kl_div(p, q, log_target=True, reduction="sum") + F.kl_div(q, p, log_target=True, reduction="sum")
        loss = loss + r_drop / 2 * both
    return loss


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("r_drop", [0.0, 1.0])
def test_a_bias_on_the_logits(smoothing: float, r_drop: float) -> None:
    torch.manual_seed(1)
    hidden, weight, bias = (
        torch.randn(*size, dtype=torch.float64, requires_grad=True) for size in ((6, 8), (17, 8), (17,))
    )
    targets = torch.randint(17, (3,)).repeat(2)
    wide, with_bias = torch.cat([hidden, torch.ones(6, 1)], dim=1), torch.cat([weight, bias[:, None]], dim=1)
    theirs = torch.autograd.grad(plain(wide, with_bias, targets, smoothing, r_drop), (hidden, weight, bias))
    ours = vocabulary_loss(hidden, weight, targets, smoothing, r_drop, bias)
    torch.testing.assert_close(
        ours.objective, plain(wide, with_bias, targets, smoothing, r_drop), rtol=1e-11, atol=1e-10
    )
    for mine, yours in zip(torch.autograd.grad(ours.objective, (hidden, weight, bias)), theirs, strict=True):
        torch.testing.assert_close(mine, yours, rtol=1e-11, atol=1e-10)
    logp = (hidden @ weight.T + bias).log_softmax(-1)
    torch.testing.assert_close(ours.nll, -logp[range(6), targets].sum())


@given(
    seed=st.integers(0, 1000),
    rows=st.integers(0, 700),  # more than a slice
    smoothing=st.sampled_from([0.0, 0.1, 0.5]),
    r_drop=st.sampled_from([0.0, 1.0, 5.0]),
)
@settings(deadline=None, max_examples=40)
def test_loss_and_gradients_equal_autograd(seed: int, rows: int, smoothing: float, r_drop: float) -> None:
    torch.manual_seed(seed)
    count = 2 * rows if r_drop else rows
    hidden = torch.randn(count, 8, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(17, 8, dtype=torch.float64, requires_grad=True)
    targets = torch.randint(17, (rows,)).repeat(2 if r_drop else 1)
    ours = vocabulary_loss(hidden, weight, targets, smoothing, r_drop)
    theirs = plain(hidden, weight, targets, smoothing, r_drop)
    torch.testing.assert_close(ours.objective, theirs, rtol=1e-11, atol=1e-10)
    torch.testing.assert_close(ours.nll, plain(hidden, weight, targets, 0.0, 0.0), rtol=1e-11, atol=1e-10)
    ours_grads = torch.autograd.grad(ours.objective * 0.7, (hidden, weight))
    theirs_grads = torch.autograd.grad(theirs * 0.7, (hidden, weight))
    torch.testing.assert_close(ours_grads, theirs_grads, rtol=1e-9, atol=1e-10)


def test_bf16_is_close_to_float32() -> None:
    torch.manual_seed(1)
    hidden, weight, targets = torch.randn(400, 32), torch.randn(200, 32), torch.randint(200, (400,))
    grads = {}
    for dtype in (torch.float32, torch.bfloat16):
        leaf = weight.clone().requires_grad_()
        given_hidden = hidden.to(dtype).requires_grad_()
        loss = vocabulary_loss(given_hidden, leaf, targets, 0.1)
        loss.objective.backward()
        assert leaf.grad is not None
        assert leaf.grad.dtype == torch.float32
        grads[dtype] = (float(loss.objective.detach()), leaf.grad)
    assert grads[torch.bfloat16][0] == pytest.approx(grads[torch.float32][0], rel=0.01)
    difference = (grads[torch.bfloat16][1] - grads[torch.float32][1]).norm() / grads[torch.float32][1].norm()
    assert difference < 0.02


@pytest.mark.parametrize("r_drop", [0.0, 2.0])
def test_int8_is_close_and_right_on_average(r_drop: float) -> None:
    """Two slices, the last with empty rows; sizes that fill neither words nor panels."""
    torch.manual_seed(3)
    count = 1060 if r_drop else 530
    targets = torch.randint(203, (530,)).repeat(2 if r_drop else 1)
    leaves = [x.requires_grad_() for x in (torch.randn(count, 30), 0.3 * torch.randn(203, 30))]
    hidden, weight = leaves

    def found(in_int8: bool) -> tuple[float, list[Tensor]]:
        loss = vocabulary_loss(hidden, weight, targets, 0.1, r_drop, in_int8=in_int8)
        return float(loss.objective.detach()), list(torch.autograd.grad(loss.objective, leaves))

    exact, gradients = found(False)
    drawn = [found(True) for _ in range(60)]
    assert drawn[0][0] == pytest.approx(exact, rel=0.003)
    for place, wanted in enumerate(gradients):
        once = float((drawn[0][1][place] - wanted).norm() / wanted.norm())
        often = float((torch.stack([one[1][place] for one in drawn]).mean(0) - wanted).norm() / wanted.norm())
        assert 0 < once < 0.05
        assert often < min(0.9 * once, 0.025)  # what is left is the logits' own rounding, to the nearest


def test_a_bias_is_not_for_int8() -> None:
    torch.manual_seed(4)
    hidden, weight, targets = torch.randn(100, 30, requires_grad=True), torch.randn(50, 30), torch.randint(50, (100,))
    losses = [vocabulary_loss(hidden, weight, targets, 0.1, 0.0, torch.arange(50.0), low) for low in (True, False)]
    assert float(losses[0].objective.detach()) == float(losses[1].objective.detach())
    rough = vocabulary_loss(hidden, weight, targets, 0.1, in_int8=True).objective
    assert float(rough.detach()) != float(vocabulary_loss(hidden, weight, targets, 0.1).objective.detach())


def test_without_gradient_nothing_is_kept() -> None:
    with torch.inference_mode():
        loss = vocabulary_loss(torch.randn(5, 4), torch.randn(9, 4), torch.randint(9, (5,)), 0.1)
    assert float(loss.nll) > 0
