"""The schedules, and which parameters are decayed."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from regard.config import ModelConfig, OptimizerKind
from regard.models.transformer import Transformer
from regard.train.optimizer import (
    build_optimizers,
    cooled,
    learning_rate,
    optimizer_tensors,
    paper_learning_rate,
    restore_optimizers,
)


@given(step=st.integers(1, 10**6), d_model=st.integers(1, 4096), warmup=st.integers(1, 20_000))
def test_the_papers_schedule(step: int, d_model: int, warmup: int) -> None:
    peak = paper_learning_rate(d_model, warmup)
    paper = d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)
    assert learning_rate(step, "inverse_sqrt", peak, warmup, 100) == pytest.approx(paper, rel=1e-12)


def test_cosine_falls_from_the_peak_to_nothing() -> None:
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
def test_one_step_of_warming_is_none(kind: str) -> None:
    assert learning_rate(1, kind, 0.1, 1, 10) == 0.1  # type: ignore[arg-type]


def test_the_rate_cools_down_over_the_last_part() -> None:
    assert [cooled(left, 0.25) for left in (1.0, 0.5, 0.25, 0.2, 0.125, 0.0)] == pytest.approx([1, 1, 1, 0.8, 0.5, 0])
    assert [cooled(left, 0.0) for left in (1.0, 0.5, 0.0)] == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("kind", ["adam", "adamw"])
def test_only_matrices_are_decayed(kind: OptimizerKind) -> None:
    matrix, vector = nn.Parameter(torch.full((2, 3), 4.0)), nn.Parameter(torch.full((3,), 4.0))
    [optimizer] = build_optimizers(kind, nn.ParameterList([matrix, vector]), (0.9, 0.98), 1e-9, 0.1)
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
    [optimizer] = build_optimizers("adafactor", nn.ParameterList([small, large]), (0.9, 0.98), 1e-9, 0.0)
    for group in optimizer.param_groups:
        group["lr"] = 0.01
    small.grad, large.grad = torch.full((2, 3), 5.0), torch.full((2, 3), 0.1)
    optimizer.step()
    for matrix, before in ((small, 0.5), (large, 8.0)):
        torch.testing.assert_close(matrix.detach(), torch.full((2, 3), before * (1 - 0.01)))


def test_muon_moves_hidden_matrices_by_orthogonal_steps_as_large_as_adams() -> None:
    torch.manual_seed(1)
    sizes = {"n_encoder_layers": 1, "n_decoder_layers": 1, "src_vocab_size": 11, "tgt_vocab_size": 13}
    model = Transformer(ModelConfig(d_model=32, n_heads=2, d_ff=48, sharing="none", **sizes))
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    muon, rest = build_optimizers("muon", model, (0.9, 0.98), 1e-9, 0.0)
    for optimizer in (muon, rest):
        for group in optimizer.param_groups:
            group["lr"] = 0.01
    for parameter in model.parameters():
        parameter.grad = torch.randn_like(parameter)
        if parameter.dim() > 1:
            parameter.grad[0] *= 10  # one direction that drowns the others
    muon.step()
    for name, parameter in model.named_parameters():
        hidden = parameter.dim() > 1 and name.startswith(("encoder.", "decoder."))
        step = (parameter.detach() - before[name]) / 0.01
        assert bool(step.any()) == hidden, name
        if hidden:
            values = torch.linalg.svdvals(step) / (0.2 * max(step.shape) ** 0.5)
            assert values.max() < 1.3
            assert values.median() > 0.6
    rest.step()
    assert all(not torch.equal(parameter, before[name]) for name, parameter in model.named_parameters())


@pytest.mark.parametrize("kind", ["adam", "adamw", "adafactor", "muon"])
def test_optimizers_restored_go_on_as_before(kind: OptimizerKind) -> None:
    def fresh() -> tuple[dict[nn.Parameter, str], list[torch.optim.Optimizer]]:
        torch.manual_seed(1)
        model = nn.Linear(3, 2)
        return {p: name for name, p in model.named_parameters()}, build_optimizers(kind, model, (0.9, 0.98), 1e-9, 0.1)

    def step(names: dict[nn.Parameter, str], optimizers: list[torch.optim.Optimizer], number: int) -> None:
        for parameter in names:
            parameter.grad = torch.sin(number + parameter.detach())
        for optimizer in optimizers:
            optimizer.step()

    names, optimizers = fresh()
    for number in range(5):
        step(names, optimizers, number)
    tensors = {name: tensor.clone() for name, tensor in optimizer_tensors(optimizers, names).items()}
    assert {name.partition("/")[2] for name in tensors} == {"weight", "bias"}
    other_names, others = fresh()
    with torch.no_grad():
        for one, copy in zip(names, other_names, strict=True):
            copy.copy_(one)
    restore_optimizers(others, other_names, tensors)
    for number in range(5, 8):
        step(names, optimizers, number)
        step(other_names, others, number)
    for one, copy in zip(names, other_names, strict=True):
        assert torch.equal(one, copy)
