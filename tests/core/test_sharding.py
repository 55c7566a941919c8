"""Which tokens of a text each rank holds."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.config.attention import RingLayout
from regard.core.sharding import Sharding, sharded, token_positions


@given(n_ranks=st.integers(1, 5), pairs=st.integers(1, 6), layout=st.sampled_from(["contiguous", "zigzag"]))
def test_every_token_is_held_once(n_ranks: int, pairs: int, layout: RingLayout) -> None:
    whole = torch.arange(2 * pairs * n_ranks)
    parts = [Sharding(rank, n_ranks, layout).take(whole, 0) for rank in range(n_ranks)]
    assert {len(part) for part in parts} == {2 * pairs}
    assert sorted(torch.cat(parts).tolist()) == whole.tolist()
    for rank, part in enumerate(parts):
        with sharded(Sharding(rank, n_ranks, layout)):
            positions, length = token_positions(0, 2 * pairs)
        assert (length, whole[positions].tolist()) == (len(whole), part.tolist())


def test_what_cannot_be_cut_is_refused() -> None:
    with pytest.raises(ValueError, match="3 tokens per rank: zigzag needs an even number"):
        Sharding(0, 2).pieces(3)
    with pytest.raises(ValueError, match="6 tokens cannot be cut: pad them to a multiple of 4"):
        Sharding(0, 2).take(torch.arange(6), 0)
    with pytest.raises(AssertionError, match="'striped'"):
        Sharding(0, 2, "striped").pieces(4)  # type: ignore[arg-type]


def test_a_text_that_is_cut_has_no_cache() -> None:
    assert token_positions(3, 2) == (slice(3, 5), 5)
    with sharded(Sharding(1, 2)), pytest.raises(ValueError, match="is computed at once, without a cache"):
        token_positions(3, 2)
