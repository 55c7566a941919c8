"""The mixture of experts against its formulas, and its load balancing."""

from __future__ import annotations

import math
from typing import Any, get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from regard.config import FeedForwardKind
from regard.core.auxiliary import auxiliary_loss
from regard.core.feedforward import FeedForward
from regard.core.moe import (
    LoadReport,
    MixtureOfExperts,
    Router,
    balance_loss,
    mixtures,
    rebalance,
)
from regard.core.taps import hook_taps, record

D = 6
X = torch.randn(3, 5, D, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def mixture(**changes: Any) -> MixtureOfExperts:
    torch.manual_seed(0)
    sizes = {"d_ff": 7, "n_experts": 4, "experts_per_token": 2, "n_shared_experts": 0, **changes}
    dropout, bias = sizes.pop("dropout", 0.0), sizes.pop("bias", True)
    made = MixtureOfExperts(D, dropout, bias, **sizes).double()
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            if not name.endswith("correction_E"):
                parameter.normal_()
    return made


def expert(made: MixtureOfExperts, number: int) -> FeedForward:
    """One of the experts as a network of its own."""
    stack = made.experts
    alone = FeedForward(D, stack.down_weight.shape[2], stack.kind, 0.0, stack.up_bias is not None).double()
    with torch.no_grad():
        alone.up.weight.copy_(stack.up_weight[number])
        alone.down.weight.copy_(stack.down_weight[number])
        if stack.up_bias is not None and stack.down_bias is not None:
            alone.up.bias.copy_(stack.up_bias[number])
            alone.down.bias.copy_(stack.down_bias[number])
    return alone


def close(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("kind", get_args(FeedForwardKind))
@pytest.mark.parametrize("gate", ["sigmoid", "softmax"])
@pytest.mark.parametrize("bias", [True, False])
def test_one_expert_equals_dense(kind: FeedForwardKind, gate: Any, bias: bool) -> None:
    made = mixture(n_experts=1, experts_per_token=1, kind=kind, gate=gate, bias=bias)
    close(made(X), expert(made, 0)(X))


@pytest.mark.parametrize("gate", ["sigmoid", "softmax"])
@pytest.mark.parametrize("normalise_gates", [True, False])
def test_it_equals_the_formula_token_by_token(gate: Any, normalise_gates: bool) -> None:
    made = mixture(gate=gate, normalise_gates=normalise_gates, routed_scaling_factor=2.5, n_shared_experts=2)
    assert made.shared is not None
    networks = [expert(made, number) for number in range(4)]
    out = made(X)
    for place in [(0, 0), (1, 3), (2, 4)]:
        x = X[place]
        logits = made.gate.weight @ x
        affinity = logits.softmax(0) if gate == "softmax" else logits.sigmoid()
        chosen = sorted(range(4), key=lambda number: -affinity[number].item())[:2]
        gates = {
            number: affinity[number] / (sum(affinity[c] for c in chosen) if normalise_gates else 1) for number in chosen
        }
        expected = made.shared(x) + sum(2.5 * gates[number] * networks[number](x) for number in chosen)
        close(out[place], expected)


def test_all_experts_active_is_a_weighted_sum_of_all() -> None:
    made = mixture(experts_per_token=4, gate="softmax", normalise_gates=False)
    weight = (X @ made.gate.weight.T).softmax(-1)
    close(made(X), sum(weight[..., e : e + 1] * expert(made, e)(X) for e in range(4)))


def test_shared_experts_equal_the_sum_of_separate_networks() -> None:
    made = mixture(n_shared_experts=2, kind="swiglu", bias=False)
    shared = made.shared
    assert shared is not None
    gate, up = shared.up.weight.chunk(2)
    total = torch.zeros_like(X)
    for half in (slice(0, 7), slice(7, 14)):
        hidden = torch.nn.functional.silu(X @ gate[half].T) * (X @ up[half].T)
        total = total + hidden @ shared.down.weight[:, half].T
    close(shared(X), total)


@given(order=st.permutations(range(15)), kept=st.integers(1, 15))
@settings(max_examples=25, deadline=None)
def test_batch_mates_are_irrelevant(order: list[int], kept: int) -> None:
    made = mixture(n_shared_experts=1, n_groups=2)
    chosen = order[:kept]
    close(made(X.view(15, D)[chosen][None])[0], made(X).view(15, D)[chosen])


def test_groups_restrict_the_choice() -> None:
    router = Router(D, 8, 2, 4, 1, "sigmoid", True, 1.0, False).double()
    # Expert 0 is the best of all, but the two of group 2 (experts 4 and 5) are better together.
    affinity = torch.tensor([[0.9, 0.0, 0.1, 0.2, 0.6, 0.5, 0.3, 0.3]], dtype=torch.float64)
    assert set(router.select_experts(affinity)[0].tolist()) == {4, 5}
    two_groups = Router(D, 8, 3, 4, 2, "sigmoid", True, 1.0, False)
    assert set(two_groups.select_experts(affinity)[0].tolist()) == {0, 4, 5}
    assert set(Router(D, 8, 2, 4, 4, "sigmoid", True, 1.0, False).select_experts(affinity)[0].tolist()) == {0, 4}


def test_the_correction_changes_the_selection_and_not_the_gates() -> None:
    made = mixture(n_experts=3, experts_per_token=2, normalise_gates=False)
    affinity = made.gate.affinity(X)
    before, _ = made.gate(affinity)
    left_out = int(({0, 1, 2} - set(before[0, 0].tolist())).pop())
    assert made.gate.correction_E is not None
    with torch.no_grad():
        made.gate.correction_E[left_out] = 5.0
    close(made.gate.affinity(X), affinity)
    after, gates = made.gate(affinity)
    assert bool((after == left_out).any(dim=-1).all())
    close(gates, affinity.gather(-1, after))


def test_balancing_by_bias_evens_out_the_load_without_a_gradient() -> None:
    """A router that strongly prefers one expert: after a few steps the load is balanced."""
    made = mixture(n_experts=8, experts_per_token=2, load_balancing_rate=0.005).train()
    with torch.no_grad():
        made.gate.weight.mul_(0.3)
        made.gate.weight[0] += 2.0
    tokens = torch.randn(1, 400, D, dtype=torch.float64, generator=torch.Generator().manual_seed(2)).abs()
    made(tokens)
    first = rebalance(made)
    assert first is not None
    assert sum(first.tokens[""]) == 800
    for _ in range(250):
        made(tokens)
        last = rebalance(made)
    assert last is not None
    assert first.entropy < 0.85
    assert last.entropy > 0.99
    assert first.busiest > 3 > 1.3 > last.busiest >= 1
    assert made.gate.correction_E is not None
    assert made.gate.correction_E.grad is None
    assert not made.gate.correction_E.requires_grad


def test_rebalance_updates_each_bias_by_the_rate_and_resets_the_counts() -> None:
    made = mixture(load_balancing_rate=0.25)
    made.train()(X)
    made(X)  # a second batch of the same step is counted with the first
    loads = made.load_E.clone()
    report = rebalance(made)
    assert report == LoadReport({"": tuple(loads.tolist())})
    assert int(loads.sum()) == 2 * 15 * 2
    assert made.gate.correction_E is not None
    close(made.gate.correction_E.detach(), 0.25 * (loads.double().mean() - loads).sign())
    assert made.load_E.tolist() == [0] * 4
    made.eval()(X)
    assert made.load_E.tolist() == [0] * 4, "only training counts"
    assert rebalance(nn.Linear(2, 2)) is None


def test_the_auxiliary_loss() -> None:
    made = mixture(load_balancing="loss", load_balancing_rate=0.01, gate="softmax").train()
    assert made.gate.correction_E is None
    made(X)
    loss = auxiliary_loss(made)
    assert loss is not None
    probability = (X.view(15, D) @ made.gate.weight.T).softmax(-1)
    share = made.load_E / made.load_E.sum()
    close(loss, 0.01 * 4 * (share * probability.mean(0)).sum())
    loss.backward()
    assert made.gate.weight.grad is not None
    assert made.gate.weight.grad.abs().max() > 0
    assert auxiliary_loss(made) is None, "each is given once"
    even, one = torch.full((10, 4), 0.25), torch.tensor([[1.0, 0, 0, 0]] * 10)
    assert balance_loss(even, torch.tensor([5, 5, 5, 5])).item() == pytest.approx(1)
    assert balance_loss(one, torch.tensor([20, 0, 0, 0])).item() == pytest.approx(4)
    made = mixture(load_balancing="none").train()
    made(X)
    assert auxiliary_loss(made) is None


def test_every_weight_gets_its_gradient_and_idle_experts_get_zero() -> None:
    made = mixture(n_shared_experts=1, n_experts=5)
    with torch.no_grad():
        assert made.gate.correction_E is not None
        made.gate.correction_E[3] = -9.0  # never chosen
    made(X).square().sum().backward()
    for name, parameter in made.named_parameters():
        if name.endswith("correction_E"):
            assert parameter.grad is None
        else:
            assert parameter.grad is not None, name
    assert made.experts.up_weight.grad is not None
    assert made.experts.up_weight.grad[3].abs().max() == 0
    assert all(made.experts.up_weight.grad[e].abs().max() > 0 for e in (0, 1, 2, 4))


def test_gradients_by_finite_differences() -> None:
    made = mixture(kind="swiglu", n_shared_experts=1, routed_scaling_factor=1.5)
    x = X[:1, :3].clone().requires_grad_()
    assert torch.autograd.gradcheck(made, (x,), eps=1e-6, atol=1e-6)


def test_taps() -> None:
    made = mixture(n_shared_experts=1)
    with record(made) as seen:
        out = made(X)
    assert seen["router"].shape == (3, 5, 4)
    assert seen["ffn_hidden"].shape == (3, 5, 2 * 7)
    assert seen["shared.ffn_hidden"].shape == (3, 5, 7)
    close(seen["ffn_out"], out)
    chosen, _ = made.gate(made.gate.affinity(X))
    alone = expert(made, int(chosen[1, 3, 1]))
    with record(alone) as units:
        alone(X[1, 3])
    close(seen["ffn_hidden"][1, 3, 7:], units["ffn_hidden"])


def test_an_intervention_on_the_units_or_the_router_reaches_the_output() -> None:
    made = mixture(bias=False)
    with hook_taps(made, {"ffn_hidden": lambda _, x: torch.zeros_like(x)}):
        close(made(X), torch.zeros_like(X))
    with hook_taps(made, {"ffn_hidden": lambda _, x: x.clone()}):
        heard = made(X)
    close(heard, made(X))
    only_two = torch.tensor([0.0, 0.0, 1.0, 0.0], dtype=torch.float64)
    with hook_taps(made, {"router": lambda _, x: only_two.expand_as(x)}):
        close(made(X), expert(made, 2)(X))


def test_bf16_activations_on_float32_weights() -> None:
    made = mixture(n_shared_experts=1).float()
    exact, rough = made(X.float()), made(X.bfloat16())
    assert rough.dtype == torch.bfloat16
    assert (rough.float() - exact).abs().median() < 0.1 * exact.abs().median()


def test_dropout_applies_to_the_hidden_units() -> None:
    made = mixture(dropout=0.5)
    close(made.eval()(X), mixture()(X))
    assert not torch.equal(made.train()(X), mixture()(X))


def test_the_report_adds_up() -> None:
    one, other = LoadReport({"a": (1, 3), "b": (0, 4)}), LoadReport({"a": (3, 1), "b": (0, 0)})
    both = one + other
    assert both.tokens == {"a": (4, 4), "b": (0, 4)}
    assert both.entropies == {"a": pytest.approx(1), "b": pytest.approx(0)}
    assert both.entropy == pytest.approx(0.5)
    assert both.busiest == pytest.approx(2)
    assert both.idle == 1
    quarter = LoadReport({"a": (1, 3)}).entropy
    assert quarter == pytest.approx(-(0.25 * math.log(0.25) + 0.75 * math.log(0.75)) / math.log(2))
    assert LoadReport({"a": (7,)}).entropy == 1


def test_mixtures_are_found_by_their_path() -> None:
    model = nn.ModuleDict({"first": mixture(), "second": nn.ModuleList([mixture()])})
    assert list(mixtures(model)) == ["first", "second.0"]


def test_an_unknown_gate_is_refused() -> None:
    router = next(module for module in mixture().modules() if isinstance(module, Router))
    router.gate = "tanh"  # type: ignore[assignment]
    with pytest.raises(AssertionError, match="'tanh'"):
        router.affinity(X)
