"""Span corruption loses nothing, takes as much as it says, and is the same for the same seed."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.spans import Corrupted, corrupt_spans, split_evenly

SENTINELS = range(1000, 1100)


def restore_spans(corrupted: Corrupted, sentinels: Sequence[int]) -> list[int]:
    """The text that was corrupted, from source and target."""
    taken: dict[int, list[int]] = {}
    current: list[int] = []
    known = set(sentinels)
    for token in corrupted.target:
        if token in known:
            current = taken.setdefault(token, [])
        else:
            current.append(token)
    return [one for token in corrupted.source for one in (taken.get(token, []) if token in known else [token])]


@given(
    st.lists(st.integers(0, 999), min_size=2, max_size=300),
    st.integers(0, 2**32),
    st.floats(0.01, 0.99),
    st.floats(1.0, 10.0),
    st.integers(2, 100),
)
def test_the_text_can_be_restored(ids: list[int], seed: int, rate: float, mean_length: float, count: int) -> None:
    sentinels = SENTINELS[:count]
    corrupted = corrupt_spans(ids, sentinels, random.Random(seed), rate, mean_length)
    assert restore_spans(corrupted, sentinels) == ids
    assert corrupted == corrupt_spans(ids, sentinels, random.Random(seed), rate, mean_length)
    in_source = [token for token in corrupted.source if token in sentinels]
    in_target = [token for token in corrupted.target if token in sentinels]
    assert in_target == list(sentinels[: len(in_target)])  # each once, in order, and one more at the end
    assert in_source == in_target[:-1]
    assert corrupted.target[-1] == in_target[-1]
    assert corrupted.source[0] not in sentinels
    pairs = zip(corrupted.source, corrupted.source[1:], strict=False)
    assert not any(one in sentinels and other in sentinels for one, other in pairs)  # no two spans touch
    taken = len(corrupted.target) - len(in_target)
    assert taken == min(max(round(len(ids) * rate), 1), len(ids) - 1)


def test_the_corruption_rate_is_the_papers() -> None:
    corrupted = corrupt_spans(range(500), SENTINELS, random.Random(1))
    spans = sum(token in SENTINELS for token in corrupted.source)
    assert spans == 25  # 75 tokens, three each
    assert len(corrupted.target) == 75 + 26


def test_splits_are_sampled_uniformly() -> None:
    draw = random.Random(3)
    counts = Counter(tuple(split_evenly(5, 3, draw)) for _ in range(6000))
    assert len(counts) == 6
    assert all(abs(count - 1000) < 150 for count in counts.values())


def test_texts_that_cannot_be_corrupted() -> None:
    with pytest.raises(ValueError, match="at least two tokens"):
        corrupt_spans([1], SENTINELS, random.Random(0))
    with pytest.raises(ValueError, match="two sentinels"):
        corrupt_spans([1, 2, 3], SENTINELS[:1], random.Random(0))
