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
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    rounds = max(1, -(-sum(lengths) // (budget * workers)))
    assert len(batches) <= workers * rounds
    longest = [lengths[batch[0]] for batch in batches]
    assert longest == sorted(longest, reverse=True)
    for batch in batches:
        assert [lengths[i] for i in batch] == sorted((lengths[i] for i in batch), reverse=True)
        assert sum(lengths[i] for i in batch) < sum(lengths) / (workers * rounds) + 2 * max(lengths)


def test_all_workers_get_sentences_of_the_same_lengths() -> None:
    batches = share_batches(list(range(1, 41)), 1_000, 2)
    assert [len(batch) for batch in batches] == [20, 20]
    assert [sum(index + 1 for index in batch) for batch in batches] == [410, 410]
    assert share_batches([1, 2, 3, 4, 5, 6, 7, 8], 9, 2) == [[7], [6, 5], [4, 1, 0], [3, 2]]  # two rounds


def test_a_sentence_as_long_as_the_others_together_is_one_workers_share() -> None:
    assert share_batches([5, 5, 30, 5, 5, 5, 5], 1_000, 2) == [[2], [0, 1, 3, 4, 5, 6]]


def test_workers_need_a_budget() -> None:
    with pytest.raises(ConfigError, match="batch_tokens = 0 is too small; the least is 1"):
        share_batches([1], 0, 2)
