"""The C++ kernel for short sequences equals the reference, forward and backward, and its dropout is correct."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from regard.core.attention.multi_head import MultiHeadAttention
from regard.core.attention.reference import reference_attention
from regard.core.attention.short import LONGEST, fits, short_attention
from regard.core.masks import causal_mask
from regard.core.taps import record
from regard.kernels.loader import library
from regard.kernels.training import TRAINING


@pytest.fixture(autouse=True)
def _compiled() -> None:
    assert library(TRAINING) is not None, "this test needs a C++ compiler"


def some_mask(kind: str, batch: int, queries: int, keys: int) -> Tensor | None:
    """Random, or causal, with at least one visible key per query."""
    if kind == "no":
        return None
    if kind == "causal":
        return causal_mask(queries, queries)
    shape = {"B11M": (batch, 1, 1, keys), "LM": (queries, keys), "B1LM": (batch, 1, queries, keys)}[kind]
    mask = torch.rand(shape) < 0.6
    mask[..., 0] |= ~mask.any(-1)
    return mask


def heads(x_BLD: Tensor, n_heads: int) -> Tensor:
    return x_BLD.unflatten(-1, (n_heads, -1)).transpose(1, 2)


@given(
    batch=st.integers(1, 3),
    n_heads=st.integers(1, 3),
    queries=st.integers(1, LONGEST),
    keys=st.integers(1, LONGEST),
    size=st.sampled_from([1, 5, 16, 20, 64, 70]),
    masked=st.sampled_from(["no", "B11M", "LM", "B1LM", "causal"]),
    dtype=st.sampled_from([torch.float32, torch.bfloat16]),
    seed=st.integers(0, 1000),
)
@settings(max_examples=80, deadline=None)
def test_it_equals_the_reference(
    batch: int, n_heads: int, queries: int, keys: int, size: int, masked: str, dtype: torch.dtype, seed: int
) -> None:
    """Output and gradients, for queries, keys and values in the layout of the projection."""
    torch.manual_seed(seed)
    keys = queries if masked == "causal" else keys
    mask = some_mask(masked, batch, queries, keys)
    x, memory = torch.randn(batch, queries, 3 * n_heads * size), torch.randn(batch, keys, 2 * n_heads * size)
    weight, scale = torch.randn(batch, n_heads, queries, size), size**-0.5
    results = []
    for exact in (True, False):
        leaves = [one.to(dtype).to(torch.float64 if exact else dtype).requires_grad_() for one in (x, memory)]
        q, (k, v) = heads(leaves[0].chunk(3, -1)[1], n_heads), (heads(one, n_heads) for one in leaves[1].chunk(2, -1))
        if exact:
            out = reference_attention(q, k, v, mask, scale)[0]
        else:
            assert fits(q, k, v, mask)
            out = short_attention(q, k, v, mask, scale)
            assert out.dtype == dtype
        (out * weight).sum().backward()
        results.append([out.detach(), *(leaf.grad for leaf in leaves)])
    for exactly, ours in zip(*results, strict=True):
        assert exactly is not None
        assert ours is not None
        tolerance = (1e-5 if dtype == torch.float32 else 0.03) * (1 + float(exactly.abs().max()))
        torch.testing.assert_close(ours.double(), exactly, rtol=0, atol=tolerance)


def test_masked_keys_have_weight_zero() -> None:
    q, k, v = (torch.randn(2, 2, 6, 8, requires_grad=True) for _ in range(3))
    out = short_attention(q, k, v, causal_mask(6, 6), 0.35)
    (gradient,) = torch.autograd.grad(out[:, :, :3].sum(), v)
    assert not gradient[:, :, 3:].any()
    with torch.no_grad():
        v[:, :, 3:] = 1e30
        k[:, :, 3:5] = 3e38  # whose scores are infinite, or no numbers
        k[:, :, 5] = math.nan
    assert torch.equal(short_attention(q, k, v, causal_mask(6, 6), 0.35)[:, :, :3], out[:, :, :3])


def test_a_fully_masked_query_is_nan_as_in_pytorch() -> None:
    q, k, v = (torch.randn(1, 1, 2, 4) for _ in range(3))
    mask = torch.tensor([[True, True], [False, False]])
    out = short_attention(q, k, v, mask, 0.5)
    assert out[0, 0, 1].isnan().all()
    torch.testing.assert_close(out[0, 0, 0], reference_attention(q, k, v, mask, 0.5)[0][0, 0, 0])


def dropped_weights(batch: int, n_heads: int, length: int, dropout: float) -> Tensor:
    """The dropout factors of uniform weights, read from values that are unit vectors."""
    q = torch.zeros(batch, n_heads, length, length)
    v = torch.eye(length).expand(batch, n_heads, length, length).clone().requires_grad_()
    out = short_attention(q, q, v, None, 1.0, dropout)
    weight = torch.randn(out.shape)
    (out * weight).sum().backward()
    assert v.grad is not None
    torch.testing.assert_close(v.grad, out.detach().mT @ weight)  # the backward pass dropped the same
    return out.detach() * length


def test_dropout_has_its_rate_and_scale_and_is_the_same_in_the_backward_pass() -> None:
    torch.manual_seed(1)
    factors = dropped_weights(60, 4, 24, 77 / 256)
    rate, kept = 77 / 256, factors > 0
    assert abs(1 - kept.float().mean().item() - rate) < 0.006
    torch.testing.assert_close(factors[kept], torch.full_like(factors[kept], 1 / (1 - rate)))
    centred = kept.float() - kept.float().mean()
    for dim, by in ((0, 1), (1, 1), (2, 1), (3, 1), (3, 8)):
        assert abs((centred * centred.roll(by, dim)).mean() / centred.var()) < 0.02


def test_the_gradient_by_queries_and_keys_includes_the_dropout() -> None:
    """With the dropout mask read from the output, the gradient equals that of the formula."""
    torch.manual_seed(2)
    q, k = (torch.randn(3, 2, 9, 9, dtype=torch.float32, requires_grad=True) for _ in range(2))
    v = torch.eye(9).expand(3, 2, 9, 9)
    out = short_attention(q, k, v, None, 1 / 3, 100 / 256)
    weight = torch.randn(out.shape)
    ours = torch.autograd.grad((out * weight).sum(), (q, k))
    even = (q @ k.mT / 3).softmax(-1)
    factors = (out / even).detach()
    theirs = torch.autograd.grad((even * factors * weight).sum(), (q, k))
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_masks_differ_and_repeat_with_the_seed() -> None:
    torch.manual_seed(3)
    first, second = (dropped_weights(2, 2, 10, 0.5) for _ in range(2))
    torch.manual_seed(3)
    assert torch.equal(dropped_weights(2, 2, 10, 0.5), first)
    assert not torch.equal(first, second)


def test_unsupported_tensors() -> None:
    x = torch.zeros(1, 2, 4, 8)
    assert fits(x, x, x, None)
    assert not fits(*[x.double()] * 3, None)
    assert not fits(x, x.bfloat16(), x, None)
    assert not fits(x, x[:, :1], x[:, :1], None)
    assert not fits(x, x, x.mT.contiguous().mT, None)  # a head's numbers do not stand together
    assert not fits(x, x, x, torch.ones(1, 2, 4, 4, dtype=torch.bool))  # a mask for each head
    assert not fits(x, x, x, torch.ones(3, 1, 4, 4, dtype=torch.bool))  # for more sentences than there are
    assert not fits(x, x, x, torch.ones(4, 4))
    assert not fits(x[:0], x[:0], x[:0], None)
    long = torch.zeros(1, 1, LONGEST + 1, 8)
    most = long[:, :, :LONGEST]
    assert fits(most, most, most, None)
    assert not fits(most, long, long, None)
    assert not fits(long, most, most, None)


def test_expanded_keys_and_values_and_views_of_a_longer_cache() -> None:
    torch.manual_seed(6)
    q, room = torch.randn(6, 2, 1, 16), torch.randn(1, 2, 50, 16)
    k, v = room[:, :, :33].expand(6, -1, -1, -1), room[:, :, 10:43].expand(6, -1, -1, -1)
    assert fits(q, k, v, None)
    torch.testing.assert_close(short_attention(q, k, v, None, 0.25), reference_attention(q, k, v, None, 0.25)[0])


def test_gradients_of_a_subset_of_the_inputs() -> None:
    torch.manual_seed(7)
    q, k, v = (torch.randn(2, 2, 5, 8) for _ in range(3))
    for wanted in range(3):
        grads = []
        for attend in (short_attention, lambda *given: reference_attention(*given)[0]):
            given = [x.clone().requires_grad_(i == wanted) for i, x in enumerate((q, k, v))]
            attend(*given, None, 0.3).square().sum().backward()
            grads.append(given[wanted].grad)
        torch.testing.assert_close(*grads)


def test_multi_head_attention_uses_it_unless_a_tap_is_hooked() -> None:
    torch.manual_seed(4)
    attention = MultiHeadAttention(32, 4)
    for parameter in attention.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    x = torch.randn(3, 7, 32, requires_grad=True)
    taken = attention(x, mask=causal_mask(7, 7))
    assert "ShortAttention" in str(graph(taken))
    with record(attention, "weights") as trace:
        seen = attention(x, mask=causal_mask(7, 7))
    assert "ShortAttention" not in str(graph(seen))
    assert trace.kernel == "reference"
    torch.testing.assert_close(taken, seen, rtol=1e-5, atol=1e-5)


def graph(tensor: Tensor) -> list[str]:
    """The names of the autograd functions in its graph."""
    names, waiting = [], [tensor.grad_fn]
    while waiting:
        function = waiting.pop()
        if function is not None:
            names.append(function.name())
            waiting += [before for before, _ in function.next_functions]
    return names
