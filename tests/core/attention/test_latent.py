"""Latent attention against its formula; its two forms against each other; its cache."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from regard.core.attention.latent import LatentAttention, LatentCache
from regard.core.masks import causal_mask
from regard.core.positions import RotaryPositions
from regard.core.taps import hook_taps, record

D, H, K, P, V, C, Q = 10, 3, 4, 6, 5, 7, 8


def attention(q_rank: int = Q, scaling_factor: float = 1.0) -> LatentAttention:
    torch.manual_seed(0)
    made = LatentAttention(D, H, K, V, C, q_rank, RotaryPositions(P, scaling_factor=scaling_factor)).double()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.normal_()
    return made.requires_grad_(False)


def inputs(batch: int, length: int) -> Tensor:
    return torch.randn(batch, length, D, dtype=torch.float64, generator=torch.Generator().manual_seed(length))


def close(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-10)


def normed(x: Tensor, gain: Tensor) -> Tensor:
    return x / torch.sqrt(x.square().mean(-1, keepdim=True) + 1e-6) * gain


@pytest.mark.parametrize("q_rank", [0, Q])
def test_it_equals_the_formula_head_by_head(q_rank: int) -> None:
    made, x, mask = attention(q_rank), inputs(2, 5), causal_mask(5, 5)
    turn = made.positions
    latent = normed(x @ made.kv_down.weight[:C].T, made.kv_norm.weight)
    short_key = turn.rotate((x @ made.kv_down.weight[C:].T)[:, None], 0)[:, 0]
    from_x = normed(x @ made.q_down.weight.T, made.q_norm.weight) if q_rank else x
    heads = []
    for head in range(H):
        q = from_x @ made.q_up.weight[head * (K + P) : (head + 1) * (K + P)].T
        kv = latent @ made.kv_up.weight[head * (K + V) : (head + 1) * (K + V)].T
        scores = q[..., :K] @ kv[..., :K].mT + turn.rotate(q[:, None, :, K:], 0)[:, 0] @ short_key.mT
        weights = (scores / math.sqrt(K + P)).masked_fill(~mask, -math.inf).softmax(-1)
        heads.append(weights @ kv[..., K:])
    close(made(x, mask), torch.cat(heads, -1) @ made.out.weight.T)


@given(batch=st.integers(1, 3), past=st.integers(0, 5), length=st.integers(1, 4), q_rank=st.sampled_from([0, Q]))
@settings(max_examples=25, deadline=None)
def test_the_absorbed_form_equals_the_plain_one(batch: int, past: int, length: int, q_rank: int) -> None:
    made, whole = attention(q_rank), inputs(batch, past + length)
    mask = causal_mask(length, past + length)
    q = made.queries(whole[:, past:], past)
    latent = made.compress(whole, 0)
    close(made.attend_absorbed(q, latent, mask), made.attend(q, latent, mask))


@given(parts=st.lists(st.integers(1, 3), min_size=1, max_size=4))
@settings(max_examples=25, deadline=None)
def test_cached_equals_uncached_for_parts_of_any_length(parts: list[int]) -> None:
    made, total = attention(), sum(parts)
    x = inputs(2, total)
    cache = LatentCache(2, total, C + P, like=x)
    out, start = [], 0
    for length in parts:
        mask = causal_mask(length, start + length) if length > 1 else None
        out.append(made(x[:, start : start + length], mask, cache))
        start += length
        assert cache.length == start
    close(torch.cat(out, dim=1), made(x, causal_mask(total, total)))


def test_the_cache_stores_only_the_latent_and_the_rotary_key() -> None:
    made, x = attention(), inputs(2, 4)
    cache = LatentCache(2, 6, C + P, like=x)
    made(x, causal_mask(4, 4), cache)
    assert cache.latent_RTC.shape == (2, 6, C + P)
    assert [name for name, value in vars(cache).items() if isinstance(value, Tensor)] == ["latent_RTC"]
    close(cache.latent_RTC[:, :4], made.compress(x, 0))


def test_rows_are_reordered() -> None:
    made, x = attention(), inputs(3, 4)
    cache = LatentCache(3, 4, C + P, like=x)
    made(x[:, :3], causal_mask(3, 3), cache)
    rows = torch.tensor([2, 0, 2, 1])
    cache.reorder(rows)
    after = made(x[rows, 3:], None, cache)
    close(after, made(x, causal_mask(4, 4))[rows, 3:])


def test_a_full_cache_is_an_error() -> None:
    made, x = attention(), inputs(1, 3)
    cache = LatentCache(1, 2, C + P, like=x)
    with pytest.raises(ValueError, match="3 tokens, but this cache has room for only 2"):
        made(x, None, cache)


def test_taps_in_both_forms() -> None:
    made, x, mask = attention(), inputs(2, 4), causal_mask(4, 4)
    with record(made) as plain:
        made(x, mask)
    assert plain["q"].shape == plain["k"].shape == (2, H, 4, K + P)
    assert plain["v"].shape == plain["head_out"].shape == (2, H, 4, V)
    assert plain["latent"].shape == (2, 4, C + P)
    close(plain["weights"].sum(-1), torch.ones(2, H, 4, dtype=torch.float64))
    close(plain["weights"] @ plain["v"], plain["head_out"])
    with record(made, "scores", "weights", "head_out") as absorbed:
        made(x, mask, LatentCache(2, 4, C + P, like=x))
    for tap in ("scores", "weights", "head_out"):
        close(absorbed[tap], plain[tap])
    with hook_taps(made, {"v": lambda _, v: torch.zeros_like(v)}):
        changed = made(x, mask, LatentCache(2, 4, C + P, like=x))
    close(changed, torch.zeros_like(changed))


def test_the_fused_kernel_gives_the_same() -> None:
    made, x = attention(), inputs(1, 260)
    mask = causal_mask(260, 260)
    fused = made(x, mask)
    with record(made, "weights"):
        close(fused, made(x, mask))


def test_scores_depend_on_the_offset_only() -> None:
    made, x = attention(), inputs(1, 6)
    with record(made, "scores") as seen:
        q, latent = made.queries(x, 0), made.compress(x, 0)
        made.attend(q, latent, None)
        q, latent = made.queries(x, 40), made.compress(x, 40)
        made.attend(q, latent, None)
    close(*seen.values["scores"])


def test_yarn_scales_the_scores() -> None:
    assert attention(scaling_factor=40.0).scale == pytest.approx((K + P) ** -0.5 * (0.1 * math.log(40) + 1) ** 2)
    assert attention().scale == pytest.approx((K + P) ** -0.5)
