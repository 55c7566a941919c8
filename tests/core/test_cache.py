"""The caches of a decoder."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.core.cache import FixedCache, GrowingCache, PrunedCache


@given(lengths=st.lists(st.integers(1, 3), min_size=1, max_size=4), seed=st.integers(0, 100))
@settings(max_examples=20, deadline=None)
def test_appended_keys_and_values_are_in_order(lengths: list[int], seed: int) -> None:
    torch.manual_seed(seed)
    cache = GrowingCache(2, 3, sum(lengths), 4, like=torch.zeros(1, dtype=torch.float64))
    keys = [torch.randn(2, 3, length, 4, dtype=torch.float64) for length in lengths]
    for i, k in enumerate(keys):
        seen_k, seen_v = cache.append(k, -k)
        assert torch.equal(seen_k, torch.cat(keys[: i + 1], dim=2))
        assert torch.equal(seen_v, -seen_k)
        assert cache.length == seen_k.shape[2]
    rows = torch.tensor([1, 1, 0])
    cache.reorder(rows)
    assert torch.equal(cache.k_RHTK, torch.cat(keys, dim=2)[rows])
    assert torch.equal(cache.v_RHTK, -torch.cat(keys, dim=2)[rows])


def test_more_tokens_than_the_capacity_is_an_error() -> None:
    cache = GrowingCache(1, 1, 2, 1, like=torch.zeros(1))
    for _ in range(2):
        cache.append(torch.ones(1, 1, 1, 1), torch.ones(1, 1, 1, 1))
    with pytest.raises(ValueError, match="3 tokens, but this cache has room for only 2"):
        cache.append(torch.ones(1, 1, 1, 1), torch.ones(1, 1, 1, 1))
    assert cache.length == 2


def test_fixed_cache_reorders_keys_and_values() -> None:
    k = torch.arange(3.0)[:, None, None, None]
    cache = FixedCache(k, -k)
    cache.reorder(torch.tensor([2, 0, 0, 1]))
    assert cache.k_RHMK.flatten().tolist() == [2, 0, 0, 1]
    assert cache.v_RHMK.flatten().tolist() == [-2, 0, 0, -1]


@given(lengths=st.lists(st.integers(1, 6), min_size=1, max_size=8), window=st.integers(0, 4), seed=st.integers(0, 100))
@settings(max_examples=40, deadline=None)
def test_a_pruned_cache_has_what_is_needed_at_its_place(lengths: list[int], window: int, seed: int) -> None:
    torch.manual_seed(seed)

    def needed(positions_M: torch.Tensor, length: int) -> torch.Tensor:
        return (positions_M >= length - window) | (positions_M == 0)

    cache = PrunedCache(2, 3, sum(lengths), 4, torch.zeros(1, dtype=torch.float64), needed)
    keys = torch.randn(2, 3, sum(lengths), 4, dtype=torch.float64)
    start = 0
    for length in lengths:
        end = start + length
        seen_k, seen_v = cache.append(keys[:, :, start:end], -keys[:, :, start:end])
        positions = cache.positions_M
        assert torch.equal(seen_k, keys[:, :, positions])
        assert torch.equal(seen_v, -seen_k)
        assert set(positions.tolist()) >= {0, *range(max(start - window, 0), end)}
        assert cache.length == end
        assert cache.k_RHTK.shape[2] <= 2 * (window + 1) + 1
        start = end
    with pytest.raises(ValueError, match="but this cache has room for only"):
        cache.append(keys[:, :, :1], keys[:, :, :1])
