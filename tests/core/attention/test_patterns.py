"""Patterns against their definitions, plans against the patterns, and caches against what later queries see."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from regard.config.attention import SparseAttentionConfig
from regard.core.attention.adaptive_span import Past
from regard.core.attention.block import ShiftedBlocks
from regard.core.attention.blockwise import plan_blocks
from regard.core.attention.build import build_attention
from regard.core.attention.chunks import Plan
from regard.core.attention.patterns import Everything, Pattern, Union, plan_by_positions, plan_for, seen
from regard.core.attention.sparse import Fixed, Strided, build_pattern
from regard.core.attention.window import Window

SMALL = st.integers(1, 5)
PATTERNS = st.one_of(
    st.builds(Window, st.integers(0, 5), SMALL, st.integers(0, 3)),
    st.builds(Strided, SMALL),
    st.builds(Fixed, SMALL, st.integers(0, 1)),
    st.builds(ShiftedBlocks, SMALL, st.just(40), st.integers(0, 3)),
    st.builds(Past, st.integers(1, 7)),
    st.just(Everything()),
    st.just(Union((Window(2), Strided(3)))),
    st.just(Union((Fixed(4, 1), Window(1), Strided(2)))),
)


def pairs_of(plan: Plan, n_heads: int, n_queries: int, n_keys: int) -> Tensor:
    """How often each pair of each head is computed."""
    times = torch.zeros(n_heads, n_queries, n_keys, dtype=torch.int64)
    for chunk in plan.chunks:
        queries, keys = torch.arange(n_queries)[chunk.queries], torch.arange(n_keys)[chunk.keys]
        mask = torch.ones(len(queries), len(keys), dtype=torch.bool) if chunk.mask_lm is None else chunk.mask_lm
        heads = torch.arange(n_heads)[chunk.heads]
        times[heads[:, None, None], queries[:, None], keys] += mask
        assert mask.any(), "a chunk without a pair"
    return times


@given(
    patterns=st.lists(PATTERNS, min_size=1, max_size=3).map(tuple),
    length=st.integers(1, 24),
    causal=st.booleans(),
    n_queries=SMALL,
    n_keys=SMALL,
)
@settings(max_examples=150, deadline=None)
def test_a_plan_computes_every_pair_that_is_seen_once_and_no_other(
    patterns: tuple[Pattern, ...], length: int, causal: bool, n_queries: int, n_keys: int
) -> None:
    positions = torch.arange(length)
    expected = seen(patterns, positions, positions, causal).expand(len(patterns), -1, -1).long()
    plan = plan_for(patterns, length, causal, n_queries, n_keys)
    by_places = plan_by_positions(patterns, positions, positions, causal, n_queries, n_keys)
    for one in (plan, by_places):
        assert torch.equal(pairs_of(one, len(patterns), length, length), expected)
        assert all(chunk.mask_lm is None or chunk.mask_lm.shape[0] <= n_queries for chunk in one.chunks)
        assert all(chunk.mask_lm is None or chunk.mask_lm.shape[1] <= n_keys for chunk in one.chunks)


@given(pattern=PATTERNS, length=st.integers(0, 24), later=st.integers(0, 12))
@settings(max_examples=150, deadline=None)
def test_a_key_that_a_later_query_sees_is_needed(pattern: Pattern, length: int, later: int) -> None:
    keys = torch.arange(length)
    is_seen = pattern.sees(torch.tensor([[length + later]]), keys)[0]
    assert not (is_seen & ~pattern.needed(keys, length)).any()


@given(data=st.data(), keys=st.integers(1, 20), causal=st.booleans(), block=SMALL)
@settings(max_examples=80, deadline=None)
def test_blocks_cover_full_attention(data: st.DataObject, keys: int, causal: bool, block: int) -> None:
    queries = data.draw(st.integers(1, keys if causal else 20))
    mask = torch.ones(queries, keys, dtype=torch.int64)
    expected = mask.tril(keys - queries) if causal else mask
    plan = plan_blocks(2, queries, keys, causal, block)
    assert torch.equal(pairs_of(plan, 2, queries, keys), expected.expand(2, -1, -1))


@pytest.mark.parametrize(
    ("pattern", "query", "keys"),
    [
        (Window(2), 6, [4, 5, 6, 7, 8]),
        (Window(2, dilation=2), 6, [2, 4, 6, 8]),
        (Window(1, n_global=2), 6, [0, 1, 5, 6, 7]),
        (Window(1, n_global=2), 1, list(range(10))),
        (Strided(3), 7, [1, 4, 7]),
        (Fixed(4, 1), 6, [3, 4, 5, 6, 7]),
        (Fixed(4, 2), 9, [2, 3, 6, 7, 8, 9]),
        (ShiftedBlocks(5, 2, 0), 6, [5, 6, 7, 8, 9]),
        (ShiftedBlocks(5, 2, 1), 6, [0, 1, 2, 3, 4]),
        (Past(3), 6, [4, 5, 6]),
        (Union((Window(1), Strided(4))), 5, [1, 4, 5, 6, 9]),
    ],
)
def test_by_hand(pattern: Pattern, query: int, keys: list[int]) -> None:
    positions = torch.arange(10)
    assert pattern.sees(positions[:, None], positions)[query].nonzero().squeeze(1).tolist() == keys


def test_unknown_patterns_and_combinations_are_refused() -> None:
    with pytest.raises(AssertionError, match="'dilated'"):
        build_pattern("dilated", 4, 1)  # type: ignore[arg-type]
    config = SparseAttentionConfig()
    object.__setattr__(config, "combine", "tokens")  # past the check of the settings
    with pytest.raises(AssertionError, match="'tokens'"):
        build_attention(config, 12, 3, "decoder")
