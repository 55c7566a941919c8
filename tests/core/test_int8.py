"""int8 products equal the products of the bytes, which approximate the numbers; stochastic rounding is unbiased."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from regard.core.int8 import (
    FEWEST,
    LANES,
    LONGEST,
    Packed,
    fits,
    int8_linear,
    multiply,
    multiply_onto,
    pack_columns,
    pack_rows,
    reason_against,
    use_int8,
)
from regard.core.linear import Linear, linear
from regard.kernels.loader import library
from regard.kernels.training import TRAINING

DTYPES = (torch.float32, torch.bfloat16)
MOST = 126.99  # what the largest of a line becomes, as in gemm_pack.h


@pytest.fixture(autouse=True)
def _compiled() -> None:
    assert library(TRAINING) is not None, "this test needs a C++ compiler"


def numbers(packed: Packed, left: bool) -> Tensor:
    """The integers of every line, read from its panel: lines × length."""
    panels = packed.words.view(torch.uint8).view(-1, packed.words.numel() * 4 // len(packed.scales) // 4, LANES, 4)
    lines = panels.transpose(1, 2).flatten(2).flatten(0, 1)[: packed.lines, : packed.length]
    return lines.double() - 128 if left else lines.view(torch.int8).double()


def values(packed: Packed, left: bool) -> Tensor:
    return numbers(packed, left) * packed.scales[: packed.lines, None].double()


def packed_both_ways(matrix: Tensor, left: bool, seed: int = 0) -> tuple[Packed, Packed]:
    rows, columns = pack_rows(matrix, left, seed)
    return rows, pack_columns(matrix, columns, left, seed)


@given(
    rows=st.integers(1, 70),
    size=st.integers(1, 150),
    left=st.booleans(),
    rounding_seed=st.integers(0, 5),
    dtype=st.sampled_from(DTYPES),
    seed=st.integers(0, 1000),
)
@settings(max_examples=80, deadline=None)
def test_quantised_values_are_near_the_numbers(
    rows: int, size: int, left: bool, rounding_seed: int, dtype: torch.dtype, seed: int
) -> None:
    torch.manual_seed(seed)
    matrix = (torch.randn(rows, size) * torch.randn(rows, 1).exp() * torch.randn(size).exp()).to(dtype)
    by_rows, by_columns = packed_both_ways(matrix, left, rounding_seed)
    for packed, wanted in ((by_rows, matrix.double()), (by_columns, matrix.double().T)):
        torch.testing.assert_close(
            packed.scales[: packed.lines].double(), wanted.abs().amax(1) / MOST, rtol=1e-6, atol=0
        )
        assert numbers(packed, left).abs().max() <= 127
        steps = (values(packed, left) - wanted) / packed.scales[: packed.lines, None].double()
        assert steps.abs().max() <= (1.0 if rounding_seed else 0.5) + 1e-3
        if not left:
            assert torch.equal(packed.totals[: packed.lines].double(), numbers(packed, left).sum(1))


@given(
    rows=st.integers(1, 70),
    columns=st.integers(1, 150),
    length=st.integers(1, 150),
    out=st.sampled_from(DTYPES),
    bias=st.booleans(),
    seed=st.integers(0, 1000),
)
@settings(max_examples=80, deadline=None)
def test_a_product_equals_the_product_of_the_bytes(
    rows: int, columns: int, length: int, out: torch.dtype, bias: bool, seed: int
) -> None:
    """For any sizes, with partial tiles, panels and words."""
    torch.manual_seed(seed)
    a, b, shift = torch.randn(rows, length), torch.randn(columns, length), torch.randn(columns) if bias else None
    left, right = pack_rows(a, left=True)[0], pack_rows(b, left=False)[0]
    wanted = values(left, True) @ values(right, False).T + (0 if shift is None else shift.double())
    tolerance = {"rtol": 1e-5, "atol": 1e-5} if out == torch.float32 else {"rtol": 0.005, "atol": 1e-5}
    torch.testing.assert_close(multiply(left, right, out, shift).double(), wanted, **tolerance)
    if not bias:
        there = torch.randn(rows, columns)
        onto = there.clone()
        multiply_onto(onto, left, right)
        torch.testing.assert_close(onto.double(), there.double() + wanted, rtol=1e-5, atol=1e-5)


def test_packing_columns_equals_packing_the_rows_of_the_transpose() -> None:
    """A matrix packed by its columns is its transpose packed by its rows."""
    torch.manual_seed(1)
    matrix = torch.randn(75, 133)
    for left in (True, False):
        one, other = packed_both_ways(matrix, left)[1], pack_rows(matrix.T.contiguous(), left)[0]
        assert torch.equal(numbers(one, left), numbers(other, left))
        assert torch.equal(one.scales, other.scales)


def test_stochastic_rounding_is_unbiased_and_reproducible() -> None:
    torch.manual_seed(2)
    matrix = torch.randn(32, 200)
    for way in (0, 1):
        sampled = torch.stack([values(packed_both_ways(matrix, True, seed)[way], True) for seed in range(1, 801)])
        packed = packed_both_ways(matrix, True, 1)[way]
        wanted, step = (matrix if way == 0 else matrix.T).double(), packed.scales[: packed.lines, None].double()
        # The standard deviation of one sample is at most half a step; of the mean of 800, 0.018.
        assert ((sampled.mean(0) - wanted) / step).abs().max() < 5 * 0.018
        assert (((sampled.mean(0) - wanted) / step).mean()).abs() < 5 * 0.018 / matrix.numel() ** 0.5 + 1e-3
        assert torch.equal(sampled[0], values(packed, True))
        assert not torch.equal(sampled[0], sampled[1])


@pytest.mark.parametrize("way", [0, 1])
def test_neighbours_are_rounded_independently(way: int) -> None:
    """Half of the numbers midway between two steps are rounded up, at any position and independently of neighbours."""
    matrix = torch.full((512, 512), 0.5 / MOST)
    matrix[:, 0] = matrix[0] = 1.0
    up = numbers(packed_both_ways(matrix, True, seed=3)[way], True)[1:, 1:]
    assert set(up.unique().tolist()) == {0.0, 1.0}
    assert abs(float(up.mean()) - 0.5) < 5 * 0.5 / up.numel() ** 0.5
    assert float((up.mean(0) - 0.5).abs().max()) < 5 * 0.5 / 511**0.5
    centred = up - 0.5
    for other in (centred.roll(1, 0), centred.roll(1, 1), centred.roll(16, 1), centred.roll(64, 1)):
        assert abs(float((centred * other).mean())) < 5 * 0.25 / up.numel() ** 0.5


@pytest.mark.parametrize("way", [0, 1])
def test_tiny_values_are_rounded_up_sometimes(way: int) -> None:
    """A thousandth of a step is rounded up with a probability of one in a thousand."""
    matrix = torch.full((1024, 1024), 0.001 / MOST)
    matrix[:, 0] = matrix[0] = 1.0
    up = numbers(packed_both_ways(matrix, True, seed=4)[way], True)[1:, 1:]
    assert abs(float(up.mean()) - 0.001) < 5 * (0.001 / up.numel()) ** 0.5


def test_the_longest_sum_does_not_overflow() -> None:
    """The largest possible sum: all values at the ends of their range."""
    left = pack_rows(torch.ones(1, LONGEST), left=True)[0]
    right = pack_rows(torch.tensor([[1.0], [-1.0]]).expand(2, LONGEST).contiguous(), left=False)[0]
    wanted = torch.tensor([[1.0, -1.0]]) * LONGEST * (127 / MOST) ** 2
    torch.testing.assert_close(multiply(left, right, torch.float32), wanted)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("bias", [True, False])
def test_a_linear_map_and_its_gradients(dtype: torch.dtype, bias: bool) -> None:
    """Close to the exact ones: each product within 2 %."""
    torch.manual_seed(4)
    x = torch.randn(3, 70, 90).to(dtype).requires_grad_()
    weight, shift = torch.randn(50, 90, requires_grad=True), torch.randn(50, requires_grad=True) if bias else None
    leaves = [leaf for leaf in (x, weight, shift) if leaf is not None]
    out = int8_linear(x, weight, shift)
    exact = F.linear(x.double(), weight.double(), None if shift is None else shift.double())
    grad = torch.randn_like(out)
    assert out.dtype == dtype
    for mine, yours in zip(
        (out, *torch.autograd.grad(out, leaves, grad)),
        (exact, *torch.autograd.grad(exact, leaves, grad.double())),
        strict=True,
    ):
        assert mine.shape == yours.shape
        mine, yours = mine.detach().double(), yours.detach().double()
        assert float((mine - yours).norm() / yours.norm()) < 0.02


def test_gradients_are_right_on_average() -> None:
    """Also for rows that are tiny compared with the others, which rounding to nearest would set to zero."""
    torch.manual_seed(5)
    x, weight = torch.randn(128, 32, requires_grad=True), torch.randn(48, 32, requires_grad=True)
    grad = torch.randn(128, 48)
    grad[1:] *= 1e-3
    exact = torch.autograd.grad(F.linear(x, weight), (x, weight), grad)
    sampled = [torch.autograd.grad(int8_linear(x, weight, None), (x, weight), grad) for _ in range(300)]
    for place in (0, 1):
        mean = torch.stack([one[place] for one in sampled]).mean(0)
        first = sampled[0][place]
        assert (mean - exact[place]).norm() < max(
            0.2 * float((first - exact[place]).norm()), 0.01 * exact[place].norm()
        )


@pytest.mark.parametrize("threads", [1, 2])
def test_the_number_of_threads_is_irrelevant(threads: int) -> None:
    torch.manual_seed(6)
    x, weight, grad = (
        torch.randn(100, 64, requires_grad=True),
        torch.randn(80, 64, requires_grad=True),
        torch.randn(100, 80),
    )
    before = torch.get_num_threads()

    def found(count: int) -> list[Tensor]:
        torch.set_num_threads(count)
        torch.manual_seed(7)
        out = int8_linear(x, weight, None)
        return [out, *torch.autograd.grad(out, (x, weight), grad)]

    try:
        assert all(torch.equal(a, b) for a, b in zip(found(threads), found(3), strict=True))
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_nan_is_not_hidden(wrong: float) -> None:
    x, weight = torch.randn(70, 20), torch.randn(30, 20)
    x[5, 3] = wrong
    out = int8_linear(x, weight, None)
    assert not out[5].isfinite().any()
    assert out[torch.arange(70) != 5].isfinite().all()
    weight[7, 2], x[5, 3] = wrong, 0.0
    assert not int8_linear(x, weight, None)[:, 7].isfinite().any()
    x, grad = torch.randn(70, 20, requires_grad=True), torch.randn(70, 30)
    weight = torch.randn(30, 20, requires_grad=True)
    grad[9, 4] = wrong
    by_x, by_weight = torch.autograd.grad(int8_linear(x, weight, None), (x, weight), grad)
    assert not by_x[9].isfinite().any()
    assert not by_weight[4].isfinite().any()


def test_empty_tensors() -> None:
    x, weight = torch.zeros(70, 20, requires_grad=True), torch.zeros(30, 20, requires_grad=True)
    out = int8_linear(x, weight, None)
    gradients = torch.autograd.grad(out, (x, weight), torch.zeros(70, 30))
    assert all(not tensor.any() for tensor in (out, *gradients))


def test_supported_tensors() -> None:
    """Enough rows, a float32 matrix, supported dtypes, sums that fit into 32 bits."""
    weight = torch.randn(30, 20)
    assert fits(torch.randn(4, FEWEST // 4, 20), weight)
    assert not fits(torch.randn(FEWEST - 1, 20), weight)
    assert not fits(torch.empty(LONGEST + 1, 20), weight)
    assert not fits(torch.randn(FEWEST, 20).double(), weight)
    assert not fits(torch.randn(FEWEST, 20), weight.double())
    x = torch.randn(FEWEST - 1, 20)
    assert torch.equal(linear(x, weight, None, in_int8=True), linear(x, weight, None))


def test_only_in_training() -> None:
    torch.manual_seed(8)
    layer, x = Linear(20, 30), torch.randn(FEWEST, 20)
    torch.nn.init.normal_(layer.weight)
    torch.nn.init.zeros_(layer.bias)
    exact = layer(x)
    use_int8(layer)
    assert not torch.equal(layer(x), exact)
    assert torch.equal(layer.eval()(x), exact)


def test_without_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    assert reason_against(torch.device("cpu")) is None
    assert "need a CPU" in str(reason_against(torch.device("meta")))
    monkeypatch.setenv("REGARD_NATIVE", "0")
    assert "REGARD_NATIVE is 0" in str(reason_against(torch.device("cpu")))
