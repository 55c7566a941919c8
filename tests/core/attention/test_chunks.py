"""Attention by chunks against the reference kernel: bias, dropout, bfloat16, and no matrix of all pairs."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from regard.config.attention import (
    AdaptiveSpanConfig,
    AttentionConfig,
    BlockwiseAttentionConfig,
    LinformerConfig,
    SparseAttentionConfig,
    WindowAttentionConfig,
)
from regard.core.attention.blockwise import plan_blocks
from regard.core.attention.build import build_attention
from regard.core.attention.chunks import Chunk, Plan, chunked_attention
from regard.core.attention.patterns import plan_for
from regard.core.attention.reference import reference_attention
from regard.core.attention.window import Window
from regard.core.masks import CausalMask, causal_mask


def random(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def agree(ours: Tensor, theirs: Tensor, leaves: list[Tensor]) -> None:
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)
    probe = torch.randn_like(theirs)
    for one, other in zip(*(torch.autograd.grad(out, leaves, probe) for out in (ours, theirs)), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-11)


@given(
    queries=st.integers(1, 9),
    keys=st.integers(1, 9),
    block=st.integers(1, 4),
    bias_shape=st.sampled_from(["none", "LM", "HLM", "1LM"]),
    masked=st.booleans(),
    seed=st.integers(0, 1000),
)
@settings(max_examples=60, deadline=None)
def test_blocks_equal_the_reference(
    queries: int, keys: int, block: int, bias_shape: str, masked: bool, seed: int
) -> None:
    torch.manual_seed(seed)
    q, k, v = random(2, 3, queries, 4), random(2, 3, keys, 4), random(2, 3, keys, 5)
    shapes = {"LM": (queries, keys), "HLM": (3, queries, keys), "1LM": (1, queries, keys)}
    bias = random(*shapes[bias_shape]) if bias_shape in shapes else None
    mask = None
    if masked:
        mask = torch.rand(2, 1, 1, keys) < 0.6
        mask[..., 0] = True
    ours = chunked_attention(q, k, v, plan_blocks(3, queries, keys, False, block), mask, 0.5, bias)
    theirs = reference_attention(q, k, v, mask, 0.5, bias)[0]
    agree(ours, theirs, [q, k, v] if bias is None else [q, k, v, bias])


@given(length=st.integers(1, 12), n_queries=st.integers(1, 4), reach=st.integers(1, 12), seed=st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_a_bias_by_distance_equals_its_matrix(length: int, n_queries: int, reach: int, seed: int) -> None:
    torch.manual_seed(seed)
    q, k, v = (random(2, 2, length, 3) for _ in range(3))
    by_distance_HP = random(2, reach)
    offset_LM = torch.arange(length)[:, None] - torch.arange(length)
    bias_HLM = by_distance_HP[:, offset_LM.clamp(0, reach - 1)]
    mask = causal_mask(length, length) & (offset_LM < reach)
    plan = plan_for((Window(reach - 1),) * 2, length, True, n_queries, 3)
    ours = chunked_attention(q, k, v, plan, None, 0.5, by_distance_HP=by_distance_HP)
    agree(ours, reference_attention(q, k, v, mask, 0.5, bias_HLM)[0], [q, k, v, by_distance_HP])


def test_dropout_has_its_rate_is_the_same_in_the_backward_pass_and_repeats_with_the_seed() -> None:
    length = 40
    q, v = torch.zeros(4, 2, length, 8), torch.eye(length).expand(4, 2, -1, -1).clone().requires_grad_()
    plan = plan_blocks(2, length, length, False, 16)

    def dropped() -> Tensor:
        torch.manual_seed(3)
        return chunked_attention(q, q, v, plan, None, 1.0, dropout=0.25)

    out, probe = dropped(), torch.randn(4, 2, length, length)
    factors = out.detach() * length
    kept = factors > 0
    assert abs(kept.float().mean() - 0.75) < 0.02
    torch.testing.assert_close(factors[kept], torch.full_like(factors[kept], 1 / 0.75))
    before = torch.get_rng_state()
    (grad_v,) = torch.autograd.grad(out, v, probe)
    torch.testing.assert_close(grad_v, out.detach().mT @ probe)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(dropped(), out)


def test_bfloat16_is_as_close_as_its_rounding() -> None:
    torch.manual_seed(1)
    exact = [torch.randn(2, 2, 50, 16, dtype=torch.float64) for _ in range(3)]
    theirs = reference_attention(*exact, None, 0.25)[0]
    ours = chunked_attention(*(x.bfloat16() for x in exact), plan_blocks(2, 50, 50, False, 16), None, 0.25)  # type: ignore[call-arg, arg-type]
    assert ours.dtype == torch.bfloat16
    torch.testing.assert_close(ours.double(), theirs, rtol=0, atol=0.03)


def test_a_query_that_sees_nothing_gets_zeros_and_no_gradient_is_lost() -> None:
    q, k, v = (random(1, 1, 4, 2) for _ in range(3))
    mask = torch.tensor([[True] * 4, [False] * 4, [True] * 4, [False] * 4])
    out = chunked_attention(q, k, v, plan_blocks(1, 4, 4, False, 2), mask, 1.0)
    assert not out[0, 0, [1, 3]].any()
    grad_q, grad_k = torch.autograd.grad(out.square().sum(), (q, k))
    assert not grad_q[0, 0, [1, 3]].any()
    assert grad_k.isfinite().all()
    torch.testing.assert_close(out[0, 0, ::2], reference_attention(q, k, v, None, 1.0)[0][0, 0, ::2])


class LargestTensor(TorchDispatchMode):
    """The most elements that any tensor had."""

    def __init__(self) -> None:
        super().__init__()
        self.elements = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for one in out if isinstance(out, tuple | list) else (out,):
            if isinstance(one, Tensor):
                self.elements = max(self.elements, one.numel())
        return out


LONG: dict[str, AttentionConfig] = {
    "blockwise": BlockwiseAttentionConfig(block=64),
    "window": WindowAttentionConfig(window=(16,), dilation=(1, 2), n_global_tokens=1),
    "local and strided": SparseAttentionConfig(stride=32),
    "fixed": SparseAttentionConfig(("fixed",), stride=32, summary_columns=1),
    "adaptive_span": AdaptiveSpanConfig(max_span=64, initial_span=20, ramp=8),
    "linformer": LinformerConfig(length=1024, projected_length=8),
}


@pytest.mark.parametrize("name", LONG)
def test_no_tensor_has_all_pairs_forward_or_backward(name: str) -> None:
    """Of 1,024 tokens: less than an eighth of the L × L matrix, for two heads."""
    config, L = LONG[name], 1024
    torch.manual_seed(0)
    made: Any = build_attention(config, 8, 2, config.roles[0])
    for parameter in made.parameters():
        torch.nn.init.uniform_(parameter, 0.0, 0.3)
    if hasattr(made, "chunk"):
        made.chunk = (64, 128)
    causal = CausalMask(L, L) if "decoder" in config.roles else None
    x_BLD = torch.randn(1, L, 8, requires_grad=True)
    with LargestTensor() as largest:
        made(x_BLD, mask=causal).sum().backward()
    assert largest.elements < L * L // 8


def test_keys_by_their_indices_with_a_bias_by_distance_and_a_mask_of_many_ranges() -> None:
    torch.manual_seed(3)
    length, reach, keys = 14, 9, torch.tensor([0, 1, 3, 4, 5, 6, 7, 8, 9, 10, 12])
    q, k, v = (random(2, 2, length, 3) for _ in range(3))
    by_distance_HP = random(2, reach)
    offset_LM = torch.arange(length)[:, None] - torch.arange(length)
    seen_LM = torch.ones(length, length, dtype=torch.bool)
    seen_LM[::2, keys[::2]] = False  # every second key is hidden from every second query
    seen_LM &= (offset_LM >= 0) & (offset_LM < reach)
    seen_LM[:, 2] = seen_LM[:, 11] = seen_LM[:, 13] = False  # not in the chunk
    seen_LM[:, 0] |= ~seen_LM.any(1)
    offset_LM = offset_LM.clamp(0, reach - 1)
    chunk = Chunk(slice(0, 2), slice(0, length), keys, seen_LM[:, keys], offset_LM[:, keys])
    ours = chunked_attention(q, k, v, Plan((chunk,), merges=False), None, 0.5, by_distance_HP=by_distance_HP)
    theirs = reference_attention(q, k, v, seen_LM, 0.5, by_distance_HP[:, offset_LM])[0]
    agree(ours, theirs, [q, k, v, by_distance_HP])


def test_more_hidden_ranges_than_are_worth_it_are_one() -> None:
    mask_lm = torch.ones(2, 11, dtype=torch.bool)
    mask_lm[0, 1::2] = False
    [(keys, hidden)] = Chunk(slice(0, 1), slice(0, 2), slice(0, 11), mask_lm).hidden
    assert keys == slice(1, 10)
    assert torch.equal(hidden, ~mask_lm[:, 1:10])
