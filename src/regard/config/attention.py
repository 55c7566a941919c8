"""One dataclass per kind of attention: a tagged union, distinguished by `kind`.

`core/attention/build.py` builds the module of each kind. A model selects one with `[model.attention] kind = "full"`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from regard.config.parsing import setting
from regard.errors import ConfigError

AttentionRole = Literal["encoder", "decoder", "cross"]


@dataclass(frozen=True)
class FullAttention:
    """The paper's multi-head attention: every query attends to every key that the mask allows."""

    kind: Literal["full"] = field(default="full", kw_only=True)


@dataclass(frozen=True)
class LatentAttentionConfig:
    """DeepSeek-V2's latent attention; `DeepSeekConfig` has the same fields and builds it from them."""

    kind: Literal["latent"] = field(default="latent", kw_only=True)
    q_rank: int = setting(0, low=0)
    kv_rank: int = setting(64, low=1)
    head_size: int = setting(32, low=1)
    rotary_size: int = setting(16, low=2)
    value_size: int = setting(32, low=1)
    rope_theta: float = setting(10_000.0, low=1.0)
    rope_scaling_factor: float = setting(1.0, low=1.0)
    rope_original_length: int = setting(4096, low=1)


AttentionConfig = FullAttention | LatentAttentionConfig
FULL_ATTENTION = FullAttention()  # the default of every model with multi-head attention


def check_attention(attention: AttentionConfig) -> None:
    """Raise for a kind that models with multi-head attention cannot have."""
    if isinstance(attention, LatentAttentionConfig):
        raise ConfigError("model.attention.kind = 'latent' is the attention of model.family = 'deepseek' only")
