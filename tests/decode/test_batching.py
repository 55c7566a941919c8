from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.decode.batching import plan_batches, share_batches
from regard.errors import ConfigError


@settings(deadline=None, max_examples=100)
@given(lengths=st.lists(st.integers(0, 60), max_size=50), budget=st.integers(1, 200))
def test_every_sentence_once_within_the_budget_longest_first(lengths: list[int], budget: int) -> None:
    batches = plan_batches(lengths, budget)
    order = [index for batch in batches for index in batch]
    assert sorted(order) == list(range(len(lengths)))
    assert [lengths[i] for i in order] == sorted(lengths, reverse=True)
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(lengths[i] for i in batch) <= budget


def test_like_lengths_go_together() -> None:
    assert plan_batches([3, 9, 3, 8, 3], 18) == [[1, 3], [0, 2, 4]]
    assert plan_batches([30, 2], 18) == [[0], [1]]
    assert plan_batches([], 18) == []


def test_a_budget_of_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match="batch_tokens = 0"):
        plan_batches([1], 0)


@settings(deadline=None, max_examples=100)
@given(lengths=st.lists(st.integers(1, 60), max_size=50), budget=st.integers(1, 200), workers=st.integers(1, 4))
def test_every_worker_gets_its_share(lengths: list[int], budget: int, workers: int) -> None:
    batches = share_batches(lengths, budget, workers)
    order = [index for batch in batches for index in batch]
    assert sorted(order) == list(range(len(lengths)))
    assert [lengths[i] for i in order] == sorted(lengths, reverse=True)
    share = max(sum(lengths) / (workers * max(1, -(-sum(lengths) // (budget * workers)))), 1)
    for batch in batches:
        assert sum(lengths[i] for i in batch) < share + 2 * max(lengths)
    assert len(batches) <= workers * max(1, -(-sum(lengths) // (budget * workers)))
