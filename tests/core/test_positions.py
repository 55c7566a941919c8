"""The six kinds of positional encodings."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from regard.core.positions import (
    AlibiPositions,
    LearnedPositions,
    Positions,
    RelativePositions,
    RotaryPositions,
    SinusoidalPositions,
    build_positions,
    sinusoids,
)
from regard.core.rotation import fits
from regard.kernels.loader import library
from regard.kernels.training import TRAINING


def close(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-10)


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@given(length=st.integers(1, 60), d_model=st.integers(1, 24))
@settings(max_examples=30, deadline=None)
def test_sinusoids_equal_the_papers_formula(length: int, d_model: int) -> None:
    table = sinusoids(length, d_model).tolist()
    for place in range(length):
        for j in range(d_model):
            angle = place / 10000 ** (2 * (j // 2) / d_model)
            expected = math.sin(angle) if j % 2 == 0 else math.cos(angle)
            assert table[place][j] == pytest.approx(expected, abs=1e-12)


def test_sinusoids_are_added_from_the_start_position() -> None:
    positions = SinusoidalPositions(6)
    x = numbers(2, 5, 6).float()
    torch.testing.assert_close(positions.add(x, 3), x + sinusoids(8, 6)[3:].float(), rtol=0, atol=1e-6)


def test_the_table_of_sinusoids_grows_without_changing_values() -> None:
    positions = SinusoidalPositions(6)
    before = positions.add(torch.zeros(1, 10, 6), 0)
    far = positions.add(torch.zeros(1, 3, 6), 1000)
    torch.testing.assert_close(far[0], sinusoids(1003, 6)[1000:].float(), rtol=0, atol=1e-6)
    assert torch.equal(positions.add(torch.zeros(1, 10, 6), 0), before)
    assert not positions.state_dict()


def test_learned_positions_are_rows_of_a_table() -> None:
    positions = LearnedPositions(4, 6).double()
    with torch.no_grad():
        positions.table_LD.copy_(numbers(6, 4))
    x = numbers(2, 3, 4, seed=1)
    close(positions.add(x, 2), x + numbers(6, 4)[2:5])
    assert positions.add(x, 3).shape == x.shape


@pytest.mark.parametrize(("start", "length"), [(0, 7), (6, 1), (4, 3)])
def test_too_long_for_learned_positions_is_an_error(start: int, length: int) -> None:
    with pytest.raises(ValueError, match="7 tokens, but this model has learned positions for only 6"):
        LearnedPositions(4, 6).add(torch.zeros(1, length, 4), start)


def rotated(x: Tensor, place: int) -> Tensor:
    """One vector at one position."""
    return RotaryPositions(len(x)).rotate(x[None, None, None], place).flatten()


@given(
    pairs=st.integers(1, 6), here=st.integers(0, 500), offset=st.integers(0, 500),
    shift=st.integers(0, 500), seed=st.integers(0, 1000),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_rotary_scores_depend_on_the_offset_only(pairs: int, here: int, offset: int, shift: int, seed: int) -> None:
    q, k = numbers(2 * pairs, seed=seed), numbers(2 * pairs, seed=seed + 1)
    score = rotated(q, here + offset) @ rotated(k, here)
    shifted = rotated(q, here + offset + shift) @ rotated(k, here + shift)
    close(shifted, score)


def test_rotary_rotates_by_the_papers_angles() -> None:
    """As complex numbers: pair i at place p is multiplied by exp(i p 10000^(-2i/K))."""
    x = numbers(2, 3, 5, 8)
    first, second = x[..., :4], x[..., 4:]
    place = torch.arange(7, 12, dtype=torch.float64)[:, None]
    angle = place / 10000 ** (2 * torch.arange(4, dtype=torch.float64) / 8)
    turned = torch.complex(first, second) * torch.exp(1j * angle)
    close(RotaryPositions(8).rotate(x, 7), torch.cat([turned.real, turned.imag], dim=-1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize("size", [2, 10, 64])
def test_the_cpp_rotation_equals_the_fallback_forward_and_backward(dtype: torch.dtype, heads: int, size: int) -> None:
    """For queries and keys as a projection leaves them; by float64, which is written out."""
    assert library(TRAINING) is not None, "this test needs a C++ compiler"
    qkv, weight = torch.randn(2, 5, 3 * heads * size).to(dtype), torch.randn(2, heads, 5, size).to(dtype)
    results = []
    for exact in (torch.float64, dtype):
        leaf = qkv.to(exact).requires_grad_()
        x = leaf.chunk(3, dim=-1)[1].unflatten(-1, (heads, size)).transpose(1, 2)
        assert fits(x) == (exact == dtype)
        turned = RotaryPositions(size).rotate(x, 7)
        assert (turned.shape, turned.dtype) == (x.shape, exact)
        (turned * weight.to(exact)).sum().backward()
        results.append((turned.detach(), leaf.grad))
    for exactly, ours in zip(*results, strict=True):
        assert exactly is not None
        assert ours is not None
        torch.testing.assert_close(ours.double(), exactly, rtol=0, atol=1e-5 if dtype == torch.float32 else 0.02)


def test_rotary_scores_do_depend_on_the_offset() -> None:
    q, k = numbers(8), numbers(8, seed=1)
    close(rotated(q, 0), q)
    assert abs(rotated(q, 3) @ rotated(k, 0) - rotated(q, 4) @ rotated(k, 0)) > 1e-3


def test_alibi_slopes_of_eight_heads_are_the_papers() -> None:
    assert AlibiPositions(8).slope_H11.flatten().tolist() == [
        1 / 2,
        1 / 4,
        1 / 8,
        1 / 16,
        1 / 32,
        1 / 64,
        1 / 128,
        1 / 256,
    ]


def test_the_alibi_bias_decreases_with_the_distance() -> None:
    bias = AlibiPositions(8).bias(3, 3)
    assert bias is not None
    assert bias[1].tolist() == [[0, -0.25, -0.5], [-0.25, 0, -0.25], [-0.5, -0.25, 0]]


def test_two_sided_alibi_distinguishes_left_from_right() -> None:
    bias = AlibiPositions(8, two_sided=True).bias(3, 3)
    assert bias is not None
    assert bias[1].tolist() == [[0, -0.5, -1], [-0.25, 0, -0.5], [-0.5, -0.25, 0]]


@pytest.mark.parametrize("kind", ["alibi", "relative"])
def test_the_bias_of_the_last_queries_is_the_last_rows_of_the_whole(kind: str) -> None:
    torch.manual_seed(0)
    positions = build_positions(kind, 8, 2, 64, False)  # type: ignore[arg-type]
    with torch.no_grad():
        for parameter in positions.parameters():
            parameter.normal_()
    whole, last = positions.bias(9, 9), positions.bias(2, 9)
    assert whole is not None
    assert last is not None
    assert whole.shape == (2, 9, 9)
    assert torch.equal(whole[:, 7:], last)


def naive_bucket(offset: int, two_sided: bool, n_buckets: int, max_distance: int) -> int:
    """T5's bucket in whole numbers: the far one k is the largest with (distance/near)^rest ≥ (max/near)^k."""
    first = 0
    if two_sided:
        n_buckets //= 2
        first = n_buckets if offset > 0 else 0
        distance = abs(offset)
    else:
        distance = max(-offset, 0)
    near = n_buckets // 2
    if distance < near:
        return first + distance
    rest = n_buckets - near
    k = 0
    while k < rest - 1 and distance**rest * near ** (k + 1) >= max_distance ** (k + 1) * near**rest:
        k += 1
    return first + near + k


@pytest.mark.parametrize("two_sided", [True, False])
@pytest.mark.parametrize(("n_buckets", "max_distance"), [(32, 128), (16, 64), (8, 20)])
def test_relative_buckets_are_t5s(two_sided: bool, n_buckets: int, max_distance: int) -> None:
    positions = RelativePositions(1, two_sided, n_buckets, max_distance)
    offsets = list(range(-300, 301))
    expected = [naive_bucket(offset, two_sided, n_buckets, max_distance) for offset in offsets]
    assert positions.bucket(torch.tensor(offsets)).tolist() == expected


def test_relative_buckets_by_hand() -> None:
    both = {
        0: 0,
        -1: 1,
        -7: 7,
        -8: 8,
        -11: 8,
        -12: 9,
        -16: 10,
        -32: 12,
        -64: 14,
        -128: 15,
        -999: 15,
        1: 17,
        8: 24,
        999: 31,
    }
    assert RelativePositions(1, True).bucket(torch.tensor(list(both))).tolist() == list(both.values())
    past = {5: 0, 0: 0, -1: 1, -15: 15, -16: 16, -18: 16, -19: 17, -127: 31, -128: 31, -999: 31}
    assert RelativePositions(1, False).bucket(torch.tensor(list(past))).tolist() == list(past.values())


def test_relative_bias_is_the_table_at_the_bucket() -> None:
    positions = RelativePositions(3, True)
    with torch.no_grad():
        positions.table.copy_(numbers(32, 3))
    bias = positions.bias(2, 4)
    assert bias is not None
    assert bias.shape == (3, 2, 4)
    # the first of two queries stands at place 2: the key at place 0 is 2 to its left, the one at 3 is 1 to its right
    assert torch.equal(bias[:, 0, 0], positions.table[2])
    assert torch.equal(bias[:, 0, 3], positions.table[17])
    assert torch.equal(bias[:, 1, 3], positions.table[0])


@pytest.mark.parametrize(
    ("kind", "cls"),
    [
        ("sinusoidal", SinusoidalPositions), ("learned", LearnedPositions), ("rotary", RotaryPositions),
        ("alibi", AlibiPositions), ("relative", RelativePositions), ("none", Positions),
    ],
)  # fmt: skip
def test_each_kind_overrides_one_method(kind: str, cls: type[Positions]) -> None:
    positions = build_positions(kind, 8, 2, 16, True)  # type: ignore[arg-type]
    assert type(positions) is cls
    with torch.no_grad():
        for parameter in positions.parameters():
            parameter.fill_(1.0)
    x, heads = torch.ones(1, 3, 8), torch.ones(1, 2, 3, 4)
    acts = {
        "add": not torch.equal(positions.add(x, 1), x),
        "rotate": not torch.equal(positions.rotate(heads, 1), heads),
        "bias": positions.bias(3, 3) is not None,
    }
    where = {"sinusoidal": "add", "learned": "add", "rotary": "rotate", "alibi": "bias", "relative": "bias"}.get(kind)
    assert acts == {name: name == where for name in acts}


def test_yarn_keeps_high_frequencies_and_lowers_low_ones() -> None:
    """YaRN: pairs with many rotations within the training length are unchanged, those with less than one are scaled."""
    like = torch.zeros(1, dtype=torch.float64)
    plain, stretched = RotaryPositions(64).frequencies(like), RotaryPositions(64, scaling_factor=40.0).frequencies(like)
    turns = plain * 4096 / (2 * math.pi)
    assert torch.equal(stretched[turns > 32 * 1.5], plain[turns > 32 * 1.5])
    torch.testing.assert_close(stretched[turns < 1 / 1.5], plain[turns < 1 / 1.5] / 40, rtol=1e-12, atol=0)
    assert bool((stretched.diff() < 0).all())
    assert bool(((stretched <= plain) & (stretched >= plain / 40 * (1 - 1e-12))).all())
    assert RotaryPositions(64).score_factor == 1
    assert RotaryPositions(64, scaling_factor=40.0).score_factor == pytest.approx((0.1 * math.log(40) + 1) ** 2)


def test_another_theta_gives_other_frequencies() -> None:
    x = torch.randn(1, 1, 5, 4, dtype=torch.float64)
    out = RotaryPositions(4, theta=100.0).rotate(x, 0)
    angle = 3 * 100.0**-0.5
    first = x[0, 0, 3, 1] * math.cos(angle) - x[0, 0, 3, 3] * math.sin(angle)
    torch.testing.assert_close(out[0, 0, 3, 1], first, rtol=0, atol=1e-12)


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(AssertionError, match="'spiral'"):
        build_positions("spiral", 8, 2, 10, two_sided=True)  # type: ignore[arg-type]
