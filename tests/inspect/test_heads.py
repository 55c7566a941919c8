from __future__ import annotations

import math

import numpy as np
import pytest

from regard.inspect.heads import HeadFigures, head_figures


def test_heads_whose_figures_are_known() -> None:
    n = 5
    diagonal, uniform, backwards = np.eye(n), np.full((n, n), 1 / n), np.eye(n)[::-1]
    at_the_end = np.zeros((n, n))
    at_the_end[:, -1] = 1
    silent = np.zeros((n, n))
    found = head_figures(np.stack([diagonal, uniform, backwards, at_the_end, silent]), "a")
    assert found[0] == HeadFigures("a", 0, entropy=0, diagonality=1, end=pytest.approx(1 / n), peak=1)
    assert found[1].entropy == pytest.approx(math.log(n))
    assert found[1].end == found[1].peak == pytest.approx(1 / n)
    assert found[2].diagonality == pytest.approx(1 - (1 + 0.5 + 0 + 0.5 + 1) / 5)
    assert found[3].end == 1
    assert found[4] == HeadFigures("a", 4, 0, 0, 0, 0)


def test_which_heads_align_words() -> None:
    mean_LM = np.array([[0.1, 0.8, 0.1], [0.7, 0.2, 0.1], [0.2, 0.2, 0.6]])  # the last row is the end of the sentence
    agrees, half = np.eye(3)[[1, 0, 0]], np.eye(3)[[1, 1, 2]]
    found = head_figures(np.stack([agrees, half, np.zeros((3, 3))]), "a", mean_LM)
    assert [one.alignment for one in found] == [1.0, 0.5, 0.0]
    assert [one.alignment for one in head_figures(np.ones((2, 1, 3)), "a", np.ones((1, 3)))] == [0.0, 0.0]  # no words
    assert head_figures(np.eye(3)[None], "a")[0].alignment is None


def test_maps_that_are_not_square_and_maps_of_one() -> None:
    [long] = head_figures(np.repeat(np.eye(3), 2, axis=0)[None], "a")
    assert 0.8 < long.diagonality < 1
    [one] = head_figures(np.ones((1, 1, 1)), "a")
    assert (one.entropy, one.diagonality, one.end, one.peak) == (0, 1, 1, 1)
