"""A mixture of experts, which replaces the feed-forward networks of any Transformer where ffn = "moe"."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from regard.config.models.base import FeedForwardKind
from regard.config.parsing import setting
from regard.errors import ConfigError

GateKind = Literal["sigmoid", "softmax"]
LoadBalancing = Literal["bias", "loss", "none"]


@dataclass(frozen=True)
class MixtureConfig:
    """Settings of a mixture of experts. The defaults are DeepSeek-V3's, with fewer experts."""

    n_experts: int = setting(8, low=1)
    experts_per_token: int = setting(2, low=1, formerly="n_active")  # routed experts per token
    n_shared_experts: int = setting(1, low=0, formerly="n_shared")  # experts that every token goes to
    d_ff: int = setting(0, low=0)  # of each expert; 0: the model's d_ff
    kind: FeedForwardKind = "swiglu"
    n_groups: int = setting(1, low=1)  # groups of experts; a token's experts are in its best groups_per_token
    groups_per_token: int = setting(1, low=1, formerly="n_active_groups")
    gate: GateKind = "sigmoid"
    normalise_gates: bool = setting(True, formerly="normalise")  # gates of a token add up to routed_scaling_factor
    routed_scaling_factor: float = setting(1.0, low=0.0, formerly="scale")
    # bias: a bias per expert, adapted to its load (DeepSeek-V3); loss: an auxiliary loss (Switch Transformer)
    load_balancing: LoadBalancing = setting("bias", formerly="balance")
    # the bias update per step, or the weight of the loss
    load_balancing_rate: float = setting(0.001, low=0.0, formerly="balance_rate")

    def __post_init__(self) -> None:
        if self.n_experts % self.n_groups or self.groups_per_token > self.n_groups:
            raise ConfigError(
                f"model.moe: {self.n_experts} experts in {self.n_groups} groups, {self.groups_per_token} of them used: "
                f"n_groups must divide n_experts, and groups_per_token must not be more than n_groups"
            )
        if self.experts_per_token > self.n_experts // self.n_groups * self.groups_per_token:
            raise ConfigError(
                f"model.moe.experts_per_token = {self.experts_per_token} exceeds the experts a token may choose from, "
                f"n_experts / n_groups · groups_per_token = {self.n_experts // self.n_groups * self.groups_per_token}"
            )
        if self.normalise_gates and self.experts_per_token == 1 < self.n_experts:
            raise ConfigError(
                "model.moe.experts_per_token = 1 with normalise_gates = true gives every token's only expert gate "
                "weight 1, so the router gets no gradient: set model.moe.normalise_gates = false, or "
                "experts_per_token = 2"
            )


DEFAULT_MIXTURE = MixtureConfig()  # the default of every model that may have experts
