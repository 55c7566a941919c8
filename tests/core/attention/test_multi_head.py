"""Attention against PyTorch's, in float64."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from regard.core.attention.fused import FUSED_FROM, FUSED_FROM_BFLOAT16, fused_attention, fused_pays
from regard.core.attention.multi_head import MultiHeadAttention
from regard.core.attention.reference import reference_attention
from regard.core.cache import FixedCache
from regard.core.masks import causal_mask, padding_mask
from regard.core.taps import record


def close(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-10)


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def some_mask(*shape: int, seed: int) -> Tensor:
    """Random, with at least one True in each row."""
    mask = torch.rand(*shape, generator=torch.Generator().manual_seed(seed)) < 0.5
    mask[..., 0] |= ~mask.any(-1)
    return mask


class Calls(TorchFunctionMode):
    """Which of PyTorch's functions were called."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Any] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(func)
        return func(*args, **(kwargs or {}))

    @property
    def fused(self) -> bool:
        return F.scaled_dot_product_attention in self.seen


@given(
    batch=st.integers(1, 3),
    heads=st.integers(1, 3),
    queries=st.integers(1, 5),
    keys=st.integers(1, 5),
    size=st.integers(1, 6),
    masked=st.sampled_from(["no", "LM", "B11M", "BHLM"]),
    biased=st.booleans(),
    seed=st.integers(0, 1000),
)
@settings(max_examples=60, deadline=None)
def test_both_kernels_equal_pytorch(
    batch: int, heads: int, queries: int, keys: int, size: int, masked: str, biased: bool, seed: int
) -> None:
    q = numbers(batch, heads, queries, size, seed=seed)
    k, v = (numbers(batch, heads, keys, size, seed=seed + i) for i in (1, 2))
    shapes = {"LM": (queries, keys), "B11M": (batch, 1, 1, keys), "BHLM": (batch, heads, queries, keys)}
    mask = some_mask(*shapes[masked], seed=seed) if masked != "no" else None
    bias = numbers(heads, queries, keys, seed=seed + 3) if biased else None
    added = torch.zeros(batch, heads, queries, keys, dtype=torch.float64)
    if bias is not None:
        added = added + bias
    if mask is not None:
        added = added.masked_fill(~mask, -math.inf)
    expected = F.scaled_dot_product_attention(q, k, v, added)
    scale = 1 / math.sqrt(size)
    out, weights = reference_attention(q, k, v, mask, scale, bias)
    close(out, expected)
    close(weights @ v, expected)
    close(weights.sum(-1), torch.ones(batch, heads, queries, dtype=torch.float64))
    out, nothing = fused_attention(q, k, v, mask, scale, bias)
    close(out, expected)
    assert nothing is None


def test_reference_by_hand() -> None:
    """One query, two keys with scores 0 and log 3: weights 1/4 and 3/4."""
    q = torch.tensor([[[[1.0]]]], dtype=torch.float64)
    k = torch.tensor([[[[0.0], [2 * math.log(3)]]]], dtype=torch.float64)
    v = torch.tensor([[[[4.0], [8.0]]]], dtype=torch.float64)
    out, weights = reference_attention(q, k, v, None, 0.5)
    close(weights.flatten(), torch.tensor([0.25, 0.75], dtype=torch.float64))
    assert out.item() == pytest.approx(0.25 * 4 + 0.75 * 8)


def test_a_masked_key_has_weight_zero_and_no_gradient() -> None:
    q, k, v = numbers(1, 1, 2, 4), numbers(1, 1, 3, 4, seed=1), numbers(1, 1, 3, 4, seed=2)
    k.requires_grad_()
    v.requires_grad_()
    mask = torch.tensor([True, False, True])
    out, weights = reference_attention(q, k, v, mask, 0.5)
    assert torch.equal(weights[..., 1], torch.zeros(1, 1, 2, dtype=torch.float64))
    out.square().sum().backward()
    assert k.grad is not None
    assert v.grad is not None
    assert not k.grad[:, :, 1].any()
    assert not v.grad[:, :, 1].any()
    assert k.grad[:, :, 0].any()


def copy_of_torch(d_model: int, n_heads: int, seed: int = 0) -> tuple[MultiHeadAttention, nn.MultiheadAttention]:
    ours = MultiHeadAttention(d_model, n_heads).double().eval()
    theirs = nn.MultiheadAttention(d_model, n_heads, batch_first=True, dtype=torch.float64)
    weights = (ours.qkv.weight, ours.qkv.bias, ours.out.weight, ours.out.bias)
    copies = (theirs.in_proj_weight, theirs.in_proj_bias, theirs.out_proj.weight, theirs.out_proj.bias)
    with torch.no_grad():
        for i, (weight, copy) in enumerate(zip(weights, copies, strict=True)):
            weight.copy_(numbers(*weight.shape, seed=seed + i) * 0.4)
            copy.copy_(weight)
    return ours, theirs


PADDED = torch.tensor([[5, 6, 7, 8, 9], [5, 6, 0, 0, 0], [5, 6, 7, 0, 0]])


@pytest.mark.parametrize("n_heads", [1, 2, 4])
@pytest.mark.parametrize("kernel", ["reference", "fused"])
def test_self_attention_equals_pytorch(n_heads: int, kernel: Any) -> None:
    ours, theirs = copy_of_torch(8, n_heads)
    ours.kernel = kernel
    x = numbers(3, 5, 8, seed=9).requires_grad_()
    y = x.detach().clone().requires_grad_()
    mask = padding_mask(PADDED, 0) & causal_mask(5, 5)
    actual = ours(x, mask=mask)
    expected, _ = theirs(y, y, y, key_padding_mask=PADDED == 0, attn_mask=~causal_mask(5, 5), need_weights=False)
    close(actual, expected)
    actual.square().sum().backward()
    expected.square().sum().backward()
    assert x.grad is not None
    assert y.grad is not None
    close(x.grad, y.grad)
    assert ours.qkv.weight.grad is not None
    close(ours.qkv.weight.grad, theirs.in_proj_weight.grad)


@pytest.mark.parametrize("n_heads", [1, 2, 4])
def test_cross_attention_equals_pytorch_and_so_do_its_weights(n_heads: int) -> None:
    ours, theirs = copy_of_torch(8, n_heads)
    x, memory = numbers(3, 4, 8, seed=9), numbers(3, 5, 8, seed=10)
    with record(ours, "weights") as trace:
        actual = ours(x, memory, padding_mask(PADDED, 0))
    expected, weights = theirs(x, memory, memory, key_padding_mask=PADDED == 0, average_attn_weights=False)
    close(actual, expected)
    close(trace["weights"], weights)
    assert trace.kernel == "reference"


def test_cross_attention_from_its_cache() -> None:
    ours, _ = copy_of_torch(8, 2)
    x, memory = numbers(3, 4, 8, seed=9), numbers(3, 5, 8, seed=10)
    mask = padding_mask(PADDED, 0)
    close(ours(x, None, mask, cache=FixedCache(*ours.keys_and_values(memory))), ours(x, memory, mask))


def test_in_bfloat16_only_very_large_scores_use_the_fused_kernel() -> None:
    ours = MultiHeadAttention(4, 1).bfloat16()
    for n_queries, fused in ((FUSED_FROM // 256, False), (FUSED_FROM_BFLOAT16 // 256, True)):
        with Calls() as calls, torch.no_grad():
            ours(torch.zeros(1, n_queries, 4, dtype=torch.bfloat16), torch.zeros(1, 256, 4, dtype=torch.bfloat16))
        assert calls.fused == fused


def test_large_scores_use_the_fused_kernel_unless_a_tap_is_hooked() -> None:
    side = math.isqrt(FUSED_FROM)
    ours, _ = copy_of_torch(4, 1)
    with Calls() as small:
        ours(numbers(1, side - 1, 4))
    assert not small.fused
    x = numbers(1, side, 4)
    with Calls() as large:
        fused = ours(x)
    assert large.fused
    with record(ours, "weights"), Calls() as watched:
        seen = ours(x)
    assert not watched.fused
    close(seen, fused)
    ours.kernel = "reference"
    with Calls() as told:
        ours(x)
    assert not told.fused


def test_attention_dropout_drops_weights_while_training_only() -> None:
    torch.manual_seed(0)
    ours = MultiHeadAttention(8, 2, dropout=0.5, kernel="reference").double()
    ours.load_state_dict(copy_of_torch(8, 2)[0].state_dict())
    x = numbers(2, 6, 8)
    still = ours.eval()(x)
    close(still, ours(x))
    ours.train()
    assert not torch.allclose(ours(x), still)
    average = ours(x.repeat(3000, 1, 1)).unflatten(0, (3000, 2)).mean(0)
    torch.testing.assert_close(average, still, rtol=0, atol=0.1)


@pytest.mark.parametrize("kernel", ["reference", "fused"])
def test_a_separate_head_size_and_no_biases(kernel: Any) -> None:
    """Three heads of five from eight dimensions, as T5 may have them, written out."""
    torch.manual_seed(0)
    attention = MultiHeadAttention(8, 3, kernel=kernel, head_size=5, bias=False).double()
    for parameter in attention.parameters():
        nn.init.normal_(parameter)
    assert {name: tuple(p.shape) for name, p in attention.named_parameters()} == {
        "qkv.weight": (45, 8),
        "out.weight": (8, 15),
    }
    x, memory = numbers(2, 4, 8), numbers(2, 6, 8, seed=1)
    w_q, w_k, w_v = attention.qkv.weight.chunk(3)
    for seen, other in ((x, None), (memory, memory)):
        q, k, v = ((one @ w.T).view(2, -1, 3, 5).transpose(1, 2) for one, w in ((x, w_q), (seen, w_k), (seen, w_v)))
        weights = (q @ k.mT / math.sqrt(5)).softmax(-1)
        wanted = (weights @ v).transpose(1, 2).flatten(2) @ attention.out.weight.T
        close(attention(x, other), wanted)
        cache = None if other is None else FixedCache(*attention.keys_and_values(other))
        close(attention(x, cache=cache), wanted)


def test_the_fused_kernel_is_used_for_long_sequences_without_dropout() -> None:
    few, many = torch.zeros(1, 1, 8, 4), torch.zeros(1, 1, 256, 4)
    assert fused_pays(many, many, 0.0)
    assert not fused_pays(few, few, 0.0)
    assert not fused_pays(many, many, 0.1)
