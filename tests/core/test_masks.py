"""True means: may attend."""

from __future__ import annotations

import torch

from regard.core.masks import causal_mask, padding_mask


def test_padding_mask_hides_pads_from_every_query() -> None:
    mask = padding_mask(torch.tensor([[3, 4, 0], [5, 0, 0]]), 0)
    assert mask.shape == (2, 1, 1, 3)
    assert mask.dtype == torch.bool
    assert mask[:, 0, 0].tolist() == [[True, True, False], [True, False, False]]


def test_causal_mask_allows_each_position_and_earlier_ones() -> None:
    for length in range(1, 6):
        expected = [[key <= query for key in range(length)] for query in range(length)]
        assert causal_mask(length, length).tolist() == expected


def test_causal_mask_of_the_last_queries() -> None:
    assert torch.equal(causal_mask(2, 5), causal_mask(5, 5)[3:])
    assert causal_mask(1, 4).all()
