"""Attention rollout: the share of each patch in the class token."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.inspect.patches import rollout


def looking(*targets: int) -> np.ndarray:
    """One head; each position attends to one other only."""
    return np.eye(len(targets))[list(targets)][None]


def test_one_layer_is_what_the_class_token_looked_at() -> None:
    weights = np.array([[[0.2, 0.5, 0.3], [1, 0, 0], [1, 0, 0]], [[0.2, 0.1, 0.7], [1, 0, 0], [1, 0, 0]]])
    np.testing.assert_allclose(rollout([weights]), [0.375, 0.625])


def test_what_a_patch_looked_at_comes_with_it() -> None:
    # First every place looks at itself, but patch 1 at patch 2; then the class token at patch 1.
    first, second = looking(0, 2, 2), looking(1, 1, 2)
    # Patch 1 is then half itself and half patch 2.
    np.testing.assert_allclose(rollout([first, second]), [0.5, 0.5])
    # The other way round the class token has patch 1 before that has seen patch 2.
    np.testing.assert_allclose(rollout([second, first]), [1.0, 0.0])


def test_a_class_token_that_looked_at_itself_alone_looked_at_no_patch_more_than_another() -> None:
    np.testing.assert_allclose(rollout([looking(0, 1, 2, 3)]), [1 / 3] * 3)


@given(seed=st.integers(0, 1000), layers=st.integers(1, 4), patches=st.integers(1, 6))
def test_shares_add_up_to_one(seed: int, layers: int, patches: int) -> None:
    draw = np.random.default_rng(seed)
    weights = [draw.dirichlet(np.ones(patches + 1), (2, patches + 1)) for _ in range(layers)]
    share = rollout(weights)
    assert share.shape == (patches,)
    assert share.sum() == pytest.approx(1)
    assert bool((share >= 0).all())
