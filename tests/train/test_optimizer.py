"""The schedules, and which parameters are decayed."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from regard.config import OptimizerKind
from regard.train.optimizer import (
    build_optimizer,
    cooldown_factor,
    learning_rate,
    optimizer_tensors,
    paper_learning_rate,
    restore_optimizer,
)


@given(step=st.integers(1, 10**6), d_model=st.integers(1, 4096), warmup=st.integers(1, 20_000))
def test_the_papers_schedule(step: int, d_model: int, warmup: int) -> None:
    peak = paper_learning_rate(d_model, warmup)
    paper = d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)
    assert learning_rate(step, "inverse_sqrt", peak, warmup, 100) == pytest.approx(paper, rel=1e-12)


def test_cosine_decays_from_the_peak_to_zero() -> None:
    rates = [learning_rate(step, "cosine", 0.5, 10, 110) for step in range(1, 121)]
    assert rates[:10] == pytest.approx([0.05 * step for step in range(1, 11)])
    assert rates[59] == pytest.approx(0.25)  # half of the way from 10 to 110
    assert rates[9:110] == sorted(rates[9:110], reverse=True)
    assert rates[109:] == pytest.approx([0.0] * 11, abs=1e-15)
    assert rates[84] == pytest.approx(0.5 * 0.5 * (1 + math.cos(math.pi * 0.75)))


def test_constant_stays() -> None:
    rates = [learning_rate(step, "constant", 2.0, 4, 10) for step in range(1, 12)]
    assert rates == [0.5, 1.0, 1.5, *[2.0] * 8]


@pytest.mark.parametrize("kind", ["inverse_sqrt", "cosine", "constant"])
def test_one_warmup_step_is_no_warmup(kind: str) -> None:
    assert learning_rate(1, kind, 0.1, 1, 10) == 0.1  # type: ignore[arg-type]


def test_the_rate_cools_down_over_the_last_part() -> None:
    assert [cooldown_factor(left, 0.25) for left in (1.0, 0.5, 0.25, 0.2, 0.125, 0.0)] == pytest.approx(
        [1, 1, 1, 0.8, 0.5, 0]
    )
    assert [cooldown_factor(left, 0.0) for left in (1.0, 0.5, 0.0)] == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("kind", ["adam", "adamw"])
def test_only_matrices_are_decayed(kind: OptimizerKind) -> None:
    matrix, vector = nn.Parameter(torch.full((2, 3), 4.0)), nn.Parameter(torch.full((3,), 4.0))
    optimizer = build_optimizer(kind, [matrix, vector], (0.9, 0.98), 1e-9, 0.1)
    for group in optimizer.param_groups:
        group["lr"] = 0.01
    matrix.grad, vector.grad = torch.zeros_like(matrix), torch.zeros_like(vector)
    optimizer.step()
    assert vector.tolist() == [4.0] * 3
    # AdamW shrinks by lr · decay; Adam takes the decay for a gradient, whose first step is always lr.
    expected = 4.0 * (1 - 0.01 * 0.1) if kind == "adamw" else 4.0 - 0.01
    torch.testing.assert_close(matrix.detach(), torch.full((2, 3), expected))


def test_adafactor_moves_a_matrix_by_a_share_of_its_size() -> None:
    small, large = nn.Parameter(torch.full((2, 3), 0.5)), nn.Parameter(torch.full((2, 3), 8.0))
    optimizer = build_optimizer("adafactor", [small, large], (0.9, 0.98), 1e-9, 0.0)
    for group in optimizer.param_groups:
        group["lr"] = 0.01
    small.grad, large.grad = torch.full((2, 3), 5.0), torch.full((2, 3), 0.1)
    optimizer.step()
    for matrix, before in ((small, 0.5), (large, 8.0)):
        torch.testing.assert_close(matrix.detach(), torch.full((2, 3), before * (1 - 0.01)))


@pytest.mark.parametrize("kind", ["adam", "adamw", "adafactor"])
def test_an_optimizer_restored_goes_on_as_before(kind: OptimizerKind) -> None:
    def fresh() -> tuple[dict[torch.Tensor, str], torch.optim.Optimizer]:
        torch.manual_seed(1)
        parameters = [nn.Parameter(torch.randn(3, 2)), nn.Parameter(torch.randn(4))]
        return dict(zip(parameters, "ab", strict=True)), build_optimizer(kind, parameters, (0.9, 0.98), 1e-9, 0.1)

    def step(names: dict[torch.Tensor, str], optimizer: torch.optim.Optimizer, number: int) -> None:
        for parameter in names:
            parameter.grad = torch.sin(number + parameter.detach())
        optimizer.step()

    names, optimizer = fresh()
    for number in range(5):
        step(names, optimizer, number)
    tensors = {name: tensor.clone() for name, tensor in optimizer_tensors(optimizer, names).items()}
    assert {name.partition("/")[2] for name in tensors} == {"a", "b"}
    other_names, other = fresh()
    with torch.no_grad():
        for one, copy in zip(names, other_names, strict=True):
            copy.copy_(one)
    restore_optimizer(other, other_names, tensors)
    for number in range(5, 8):
        step(names, optimizer, number)
        step(other_names, other, number)
    for one, copy in zip(names, other_names, strict=True):
        assert torch.equal(one, copy)


def test_unknown_schedules_and_optimizers_are_refused() -> None:
    assert learning_rate(1, "linear", 1.0, 4, 10) == 0.25  # type: ignore[arg-type]  # all warm up alike
    with pytest.raises(AssertionError, match="'linear'"):
        learning_rate(4, "linear", 1.0, 4, 10)  # type: ignore[arg-type]
    with pytest.raises(AssertionError, match="'sgd'"):
        build_optimizer("sgd", nn.Linear(2, 2).parameters(), (0.9, 0.98), 1e-9, 0.0)  # type: ignore[arg-type]
