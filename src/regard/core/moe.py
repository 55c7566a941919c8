"""A mixture of experts: many feed-forward networks, of which a router selects a few for each token.

Shazeer et al. 2017. Softmax gates and the auxiliary loss are those of Fedus et al. 2021 (Switch, section 2.2); shared
experts, sigmoid gates, groups of experts and balancing by a bias instead of a loss are those of DeepSeek-V3 (2024,
section 2.1.2). Deviations: experts have no capacity limit, so no token is dropped, and the result for a token does not
depend on the rest of the batch; a group is ranked by its two best experts, as in DeepSeek's own code (the paper has
experts_per_token / groups_per_token, which is two there); V3's very small sequence-wise loss is left out.

Padding is routed and counted like any other token: batches of similar lengths have little of it.

Shapes: B batch, L length, N = B·L tokens, D model, E experts, A experts per token, F units per expert, G groups.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, assert_never

import torch
from torch import Tensor, nn

from regard.config import FeedForwardChoice, FeedForwardKind, GateKind, LoadBalancing
from regard.core.auxiliary import AuxiliaryLoss
from regard.core.dropout import Dropout
from regard.core.feedforward import GATED, FeedForward, activate
from regard.core.linear import linear
from regard.core.taps import Tap

GROUP_RANKED_BY = 2  # experts


class Router(nn.Module):
    """Selects the experts of each token and computes their gate weights.

    affinity_E = softmax or sigmoid (W x).   chosen: the A experts with the greatest affinity + correction.
    gate_A = affinity of the chosen, divided by their sum if `normalise_gates`, times `routed_scaling_factor`.
    The correction, which `rebalance` updates, affects the selection of an expert, not its gate weight.
    """

    def __init__(
        self,
        d_model: int,
        n_experts: int,
        experts_per_token: int,
        n_groups: int,
        groups_per_token: int,
        gate: GateKind,
        normalise_gates: bool,
        routed_scaling_factor: float,
        corrected: bool,
    ) -> None:
        super().__init__()
        self.experts_per_token, self.n_groups, self.groups_per_token = experts_per_token, n_groups, groups_per_token
        self.gate: GateKind = gate
        self.normalise_gates, self.routed_scaling_factor = normalise_gates, routed_scaling_factor
        self.weight = nn.Parameter(torch.empty(n_experts, d_model))
        # A parameter, so that it is saved with the others; without a gradient, so that no optimiser changes it.
        self.correction_E = nn.Parameter(torch.zeros(n_experts), requires_grad=False) if corrected else None

    def affinity(self, x_BLD: Tensor) -> Tensor:
        """affinity_BLE, in float32 at least: near ties must not be decided by rounding."""
        x_BLD = x_BLD.to(torch.promote_types(x_BLD.dtype, torch.float32))
        logits_BLE = linear(x_BLD, self.weight, None)
        match self.gate:
            case "softmax":
                return logits_BLE.softmax(dim=-1)
            case "sigmoid":
                return logits_BLE.sigmoid()
            case _:
                assert_never(self.gate)

    def forward(self, affinity_BLE: Tensor) -> tuple[Tensor, Tensor]:
        """chosen_BLA and gate_BLA."""
        chosen_BLA = self.select_experts(affinity_BLE.detach())
        gate_BLA = affinity_BLE.gather(-1, chosen_BLA)
        if self.normalise_gates:
            gate_BLA = gate_BLA / (gate_BLA.sum(dim=-1, keepdim=True) + 1e-20)
        return chosen_BLA, gate_BLA * self.routed_scaling_factor

    def select_experts(self, affinity_BLE: Tensor) -> Tensor:
        """chosen_BLA; with groups, only from the best groups."""
        rank_BLE = affinity_BLE
        if self.correction_E is not None:
            rank_BLE = rank_BLE + self.correction_E.to(rank_BLE.dtype)
        if self.groups_per_token < self.n_groups:
            rank_BLGE = rank_BLE.view(*rank_BLE.shape[:-1], self.n_groups, -1)
            best_BLG = rank_BLGE.topk(min(GROUP_RANKED_BY, rank_BLGE.shape[-1]), dim=-1).values.sum(dim=-1)
            groups_BLG = best_BLG.topk(self.groups_per_token, dim=-1).indices
            selected_BLG = torch.zeros_like(best_BLG, dtype=torch.bool).scatter(-1, groups_BLG, True)
            rank_BLE = rank_BLGE.masked_fill(~selected_BLG[..., None], -math.inf).flatten(-2)
        return rank_BLE.topk(self.experts_per_token, dim=-1).indices


class Experts(nn.Module):
    """E feed-forward networks, each applied to the tokens routed to it. Their weights are stacked.

    The tokens are sorted by expert, so that each expert computes one product. x_ND in, out_ND = Σ gate · expert(x).
    """

    def __init__(
        self, n_experts: int, d_model: int, d_ff: int, kind: FeedForwardKind, dropout: float, bias: bool
    ) -> None:
        super().__init__()
        self.kind: FeedForwardKind = kind
        width = 2 * d_ff if kind in GATED else d_ff
        self.up_weight = nn.Parameter(torch.empty(n_experts, width, d_model))
        self.up_bias = nn.Parameter(torch.zeros(n_experts, width)) if bias else None
        self.down_weight = nn.Parameter(torch.empty(n_experts, d_model, d_ff))
        self.down_bias = nn.Parameter(torch.zeros(n_experts, d_model)) if bias else None
        self.dropout = Dropout(dropout)

    def matrices(self) -> Iterator[Tensor]:
        """The two matrices of every expert, for initialisation."""
        yield from self.up_weight.detach()
        yield from self.down_weight.detach()

    def forward(
        self, x_ND: Tensor, chosen_NA: Tensor, gate_NA: Tensor, hook: Callable[[Tensor], Tensor] | None
    ) -> Tensor:
        """`hook` gets the hidden units, one row per token with its experts one after the other, and may change them."""
        order = chosen_NA.flatten().argsort(stable=True)  # of the N·A (token, expert) pairs, by expert
        inverse = order.argsort()
        counts: list[int] = chosen_NA.flatten().bincount(minlength=len(self.up_weight)).tolist()
        routed = x_ND.index_select(0, order // chosen_NA.shape[1])
        hidden = activate(self.kind, expert_linear(routed, counts, self.up_weight, self.up_bias))
        if hook is not None:
            hidden = hook(hidden[inverse].view(len(x_ND), -1)).view(len(inverse), -1)[order]
        out = expert_linear(self.dropout(hidden), counts, self.down_weight, self.down_bias)
        out_NAD = out.index_select(0, inverse).view(*chosen_NA.shape, -1)
        return (out_NAD * gate_NA[..., None].to(out.dtype)).sum(dim=1)


def expert_linear(x: Tensor, counts: list[int], weight: Tensor, bias: Tensor | None) -> Tensor:
    """Apply each expert's linear layer to its own rows of x, which are sorted by expert."""
    # One cast and one unbind for all: with indexing, autograd would compute a gradient of the whole stack per expert.
    weights = weight.to(x.dtype).unbind()
    biases = [None] * len(weights) if bias is None else bias.unbind()
    parts = zip(torch.split(x, counts), weights, biases, strict=True)
    outputs = [linear(part, one, own) for part, one, own in parts if len(part)]
    return torch.cat(outputs) if outputs else x.new_empty(0, weight.shape[1])


class SharedExperts(FeedForward):
    """The experts that process every token: n networks side by side are one network of n times the width."""


class MixtureOfExperts(nn.Module, AuxiliaryLoss):
    """shared(x) + Σ over the chosen of gate · expert(x).   x_BLD in, BLD out.

    In training it counts the tokens of each expert; `rebalance` reads the counts after each optimiser step.
    """

    load_E: Tensor

    def __init__(
        self,
        d_model: int,
        dropout: float,
        bias: bool,
        *,
        d_ff: int,
        kind: FeedForwardKind = "swiglu",
        n_experts: int = 8,
        experts_per_token: int = 2,
        n_shared_experts: int = 1,
        n_groups: int = 1,
        groups_per_token: int = 1,
        gate: GateKind = "sigmoid",
        normalise_gates: bool = True,
        routed_scaling_factor: float = 1.0,
        load_balancing: LoadBalancing = "bias",
        load_balancing_rate: float = 0.001,
    ) -> None:
        super().__init__()
        self.load_balancing: LoadBalancing = load_balancing
        self.load_balancing_rate = load_balancing_rate
        self.gate = Router(
            d_model,
            n_experts,
            experts_per_token,
            n_groups,
            groups_per_token,
            gate,
            normalise_gates,
            routed_scaling_factor,
            load_balancing == "bias",
        )
        self.experts = Experts(n_experts, d_model, d_ff, kind, dropout, bias)
        self.shared = SharedExperts(d_model, n_shared_experts * d_ff, kind, dropout, bias) if n_shared_experts else None
        self.register_buffer("load_E", torch.zeros(n_experts, dtype=torch.int64), persistent=False)
        self.auxiliary: Tensor | None = None
        self.router, self.ffn_hidden, self.ffn_out = Tap(), Tap(), Tap()

    def forward(self, x_BLD: Tensor) -> Tensor:
        affinity_BLE = self.router(self.gate.affinity(x_BLD))
        chosen_BLA, gate_BLA = self.gate(affinity_BLE)
        if self.training:
            self.count(affinity_BLE, chosen_BLA)
        hook = (lambda x_NF: self.ffn_hidden(x_NF.view(*x_BLD.shape[:-1], -1))) if self.ffn_hidden.hooked else None
        tokens = (x.reshape(-1, x.shape[-1]) for x in (x_BLD, chosen_BLA, gate_BLA))
        out_BLD = self.experts(*tokens, hook).view(x_BLD.shape)
        if self.shared is not None:
            out_BLD = out_BLD + self.shared(x_BLD)
        return self.ffn_out(out_BLD)  # type: ignore[no-any-return]

    def count(self, affinity_BLE: Tensor, chosen_BLA: Tensor) -> None:
        load_E = chosen_BLA.flatten().bincount(minlength=affinity_BLE.shape[-1])
        self.load_E += load_E
        if self.load_balancing == "loss":
            loss = self.load_balancing_rate * balance_loss(affinity_BLE, load_E)
            self.auxiliary = loss if self.auxiliary is None else self.auxiliary + loss

    def auxiliary_loss(self) -> Tensor | None:
        """The balance loss of the batches since the last call; None without `load_balancing = "loss"`."""
        loss, self.auxiliary = self.auxiliary, None
        return loss


def build_ffn(
    d_model: int,
    d_ff: int,
    choice: FeedForwardChoice,
    dropout: float,
    bias: bool,
    moe: Mapping[str, Any],
    block: int = 0,
) -> nn.Module:
    """A feed-forward network or a mixture of experts. `moe`: the settings of a mixture; d_ff 0 there means `d_ff`.

    `block`: one network is computed for so many tokens at a time; 0: for all at once, as a mixture always is.
    """
    if choice != "moe":
        return FeedForward(d_model, d_ff, choice, dropout, bias, block)
    return MixtureOfExperts(d_model, dropout, bias, **{**moe, "d_ff": moe["d_ff"] or d_ff})


def balance_loss(affinity_BLE: Tensor, load_E: Tensor) -> Tensor:
    """E · Σ share of the tokens · mean probability: 1 for a uniform load, E if one expert gets all tokens."""
    share_E = load_E / load_E.sum()
    probability_E = (affinity_BLE / affinity_BLE.sum(dim=-1, keepdim=True)).flatten(0, -2).mean(dim=0)
    return len(load_E) * (share_E.to(probability_E.dtype) * probability_E).sum()


@dataclass(frozen=True)
class LoadReport:
    """The number of tokens routed to each expert of each mixture since the last report."""

    tokens: dict[str, tuple[int, ...]]  # by the path of the mixture in the model

    def __add__(self, other: LoadReport) -> LoadReport:
        sums = {name: tuple(map(sum, zip(own, other.tokens[name], strict=True))) for name, own in self.tokens.items()}
        return LoadReport(sums)

    @property
    def entropies(self) -> dict[str, float]:
        """The normalised entropy of the load per mixture, from 0 (one expert gets all tokens) to 1 (uniform)."""
        return {name: normalised_entropy(loads) for name, loads in self.tokens.items()}

    @property
    def entropy(self) -> float:
        """The mean over all mixtures."""
        return sum(self.entropies.values()) / len(self.tokens)

    @property
    def busiest(self) -> float:
        """The maximum load of an expert, as a multiple of the mean load."""
        return max(max(loads) * len(loads) / max(sum(loads), 1) for loads in self.tokens.values())

    @property
    def idle(self) -> int:
        """The number of experts without tokens."""
        return sum(loads.count(0) for loads in self.tokens.values())


def normalised_entropy(loads: tuple[int, ...]) -> float:
    """The entropy of the shares, divided by its maximum; 1 for a single expert."""
    shares = [load / max(sum(loads), 1) for load in loads if load]
    return -sum(share * math.log(share) for share in shares) / math.log(len(loads)) if len(loads) > 1 else 1.0


def mixtures(model: nn.Module) -> dict[str, MixtureOfExperts]:
    """The mixtures of a model, by their path in it."""
    return {name: module for name, module in model.named_modules() if isinstance(module, MixtureOfExperts)}


@torch.no_grad()
def rebalance(model: nn.Module) -> LoadReport | None:
    """Update the routing biases after an optimiser step, and report the step's load; None without experts.

    With `load_balancing = "bias"`, the bias of every expert with more tokens than the mean falls by
    `load_balancing_rate`, and that of every expert with fewer rises by it. The token counts are reset, so a checkpoint
    between two steps need not store them.
    """
    found = mixtures(model)
    if not found:
        return None
    report = LoadReport({name: tuple(mixture.load_E.tolist()) for name, mixture in found.items()})
    for mixture in found.values():
        correction_E, load_E = mixture.gate.correction_E, mixture.load_E
        if correction_E is not None:
            correction_E.add_((load_E.double().mean() - load_E).sign(), alpha=mixture.load_balancing_rate)
        load_E.zero_()
    return report
