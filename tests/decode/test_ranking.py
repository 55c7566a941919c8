from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.decode.ranking import select_best

ROWS = st.integers(1, 12).flatmap(
    lambda width: st.lists(
        st.lists(st.sampled_from([-torch.inf, -2.0, -1.0, 0.0, 0.5]), min_size=width, max_size=width),
        min_size=1,
        max_size=5,
    )
)


@settings(deadline=None, max_examples=150)
@given(rows=ROWS, k=st.integers(1, 14))
def test_best_first_and_the_lower_index_among_equals(rows: list[list[float]], k: int) -> None:
    best_NK, index_NK = select_best(torch.tensor(rows), k)
    for row, best, index in zip(rows, best_NK.tolist(), index_NK.tolist(), strict=True):
        expected = sorted(range(len(row)), key=lambda i: (-row[i], i))[:k]
        possible = [i for i in expected if row[i] > -torch.inf]  # which of the impossible come last is open
        assert index[: len(possible)] == possible
        assert best == [row[i] for i in expected]
        assert len(set(index)) == len(index)


def test_equals_among_many() -> None:
    values_NW = torch.zeros(2, 5000)
    values_NW[1, 4000] = 1.0
    _, index_NK = select_best(values_NW, 3)
    assert index_NK.tolist() == [[0, 1, 2], [4000, 0, 1]]
