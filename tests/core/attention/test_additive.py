"""The attentions of recurrent decoders, against their formulas."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from regard.core.attention.additive import AdditiveAttention, DotAttention
from regard.core.taps import hook_taps, record

D, S = 4, 6


def build(kind: str) -> AdditiveAttention | DotAttention:
    torch.manual_seed(1)
    kinds = {"additive": AdditiveAttention(D, S, 5), "dot": DotAttention(D, D), "general": DotAttention(D, S)}
    module = kinds[kind].double()
    for parameter in module.parameters():
        nn.init.normal_(parameter)
    return module


def score(module: AdditiveAttention | DotAttention, s_D: Tensor, h_S: Tensor) -> float:
    """One score by the formula."""
    if isinstance(module, AdditiveAttention):
        inner_A = module.from_state.weight @ s_D + module.from_memory.weight @ h_S + module.from_memory.bias
        return float((module.v * torch.tanh(inner_A)).sum())
    if isinstance(module.from_memory, nn.Identity):
        return float(s_D @ h_S)
    return float(s_D @ module.from_memory.weight @ h_S)


every_kind = pytest.mark.parametrize("kind", ["additive", "dot", "general"])


def inputs(kind: str, lengths: list[int], n_steps: int) -> tuple[Tensor, Tensor, Tensor]:
    """Queries of several steps, a memory, its mask."""
    generator = torch.Generator().manual_seed(7)
    width = max(lengths)
    size = D if kind == "dot" else S
    queries_LBD = torch.randn(n_steps, len(lengths), D, dtype=torch.float64, generator=generator)
    memory_BMS = torch.randn(len(lengths), width, size, dtype=torch.float64, generator=generator)
    mask_B11M = (torch.arange(width) < torch.tensor(lengths)[:, None])[:, None, None]
    return queries_LBD, memory_BMS, mask_B11M


@every_kind
@given(lengths=st.lists(st.integers(1, 5), min_size=1, max_size=3), n_steps=st.integers(1, 3))
@settings(max_examples=10, deadline=None)
def test_scores_weights_and_context_follow_the_formula(kind: str, lengths: list[int], n_steps: int) -> None:
    module = build(kind).requires_grad_(False)
    queries_LBD, memory_BMS, mask = inputs(kind, lengths, n_steps)
    with record(module) as seen:
        attend = module.attend_to(module.prepare(memory_BMS, mask))
        contexts = [attend(query_BD) for query_BD in queries_LBD]
    for step, row in ((step, row) for step in range(n_steps) for row in range(len(lengths))):
        real = lengths[row]
        scores = [score(module, queries_LBD[step, row], h_S) for h_S in memory_BMS[row, :real]]
        total = sum(math.exp(one) for one in scores)
        weights_M = torch.tensor([math.exp(one) / total for one in scores], dtype=torch.float64)
        weights_BHLM = seen.values["weights"][step]
        assert weights_BHLM.shape == (len(lengths), 1, 1, max(lengths))
        close = {"rtol": 0, "atol": 1e-10}
        torch.testing.assert_close(seen.values["scores"][step][row, 0, 0, :real].tolist(), scores, **close)
        torch.testing.assert_close(weights_BHLM[row, 0, 0, :real], weights_M, **close)
        assert weights_BHLM[row, 0, 0, real:].tolist() == [0.0] * (max(lengths) - real)
        torch.testing.assert_close(contexts[step][row], weights_M @ memory_BMS[row, :real], **close)
        assert torch.equal(seen.values["attn_out"][step][row, 0], contexts[step][row])


def all_at_once(
    module: AdditiveAttention | DotAttention, queries_LBD: Tensor, memory_BMS: Tensor, mask_B11M: Tensor
) -> Tensor:
    """Every step's context in plain operators, differentiated by autograd."""
    if isinstance(module, AdditiveAttention):
        inner_LBMA = module.from_state(queries_LBD)[:, :, None] + module.from_memory(memory_BMS)
        scores_LBM = torch.tanh(inner_LBMA) @ module.v
    else:
        scores_LBM = torch.einsum("lbd,bmd->lbm", queries_LBD, module.from_memory(memory_BMS))
    weights_LBM = scores_LBM.masked_fill(~mask_B11M[:, 0, 0], -math.inf).softmax(dim=-1)
    return torch.einsum("lbm,bms->lbs", weights_LBM, memory_BMS)


@every_kind
def test_gradients_are_those_of_the_formula(kind: str) -> None:
    module = build(kind)
    queries_LBD, memory_BMS, mask = inputs(kind, [3, 2], 4)
    wanted_of = (memory_BMS.requires_grad_(), queries_LBD.requires_grad_(), *module.parameters())
    attend = module.attend_to(module.prepare(memory_BMS, mask))
    stepwise_LBS = torch.stack([attend(query_BD) for query_BD in queries_LBD])
    plain_LBS = all_at_once(module, queries_LBD, memory_BMS, mask)
    torch.testing.assert_close(stepwise_LBS, plain_LBS, rtol=0, atol=1e-10)
    probe = torch.randn_like(plain_LBS)
    ours, theirs = (torch.autograd.grad(out, wanted_of, probe) for out in (stepwise_LBS, plain_LBS))
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-10)


@every_kind
def test_a_hook_on_the_weights_changes_the_context(kind: str) -> None:
    module = build(kind).requires_grad_(False)
    queries_LBD, memory_BMS, mask = inputs(kind, [4, 4], 1)
    memory = module.prepare(memory_BMS, mask)

    def look_at_the_second(_: str, weights_BHLM: Tensor) -> Tensor:
        changed = torch.zeros_like(weights_BHLM)
        changed[..., 1] = 1
        return changed

    with hook_taps(module, {"weights": look_at_the_second}):
        context = module.attend_to(memory)(queries_LBD[0])
    torch.testing.assert_close(context, memory_BMS[:, 1])


def test_rows_of_a_memory_can_be_selected() -> None:
    module = build("additive").requires_grad_(False)
    queries_LBD, memory_BMS, mask = inputs("additive", [2, 5, 3], 1)
    rows = torch.tensor([2, 0, 0])
    whole = module.attend_to(module.prepare(memory_BMS, mask))(queries_LBD[0])
    chosen = module.attend_to(module.prepare(memory_BMS, mask).select(rows))(queries_LBD[0, rows])
    torch.testing.assert_close(chosen, whole[rows])


def test_the_dot_product_has_no_parameters_where_sizes_agree() -> None:
    assert sum(p.numel() for p in DotAttention(D, D).parameters()) == 0
    assert [tuple(p.shape) for p in DotAttention(D, S).parameters()] == [(D, S)]
