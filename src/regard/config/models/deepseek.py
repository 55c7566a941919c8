"""DeepSeek-V3's decoder."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from regard.config.attention import LatentAttentionConfig
from regard.config.models.base import LanguageFamily
from regard.config.models.mixture import DEFAULT_MIXTURE, MixtureConfig
from regard.config.parsing import setting
from regard.errors import ConfigError


@dataclass(frozen=True)
class DeepSeekConfig(LanguageFamily):
    """DeepSeek-V3's decoder: latent attention and a mixture of experts."""

    family: Literal["deepseek"] = field(default="deepseek", kw_only=True)
    d_model: int = setting(256, low=1)
    n_heads: int = setting(4, low=1)
    d_ff: int = setting(1024, low=1)  # of the layers without experts
    n_layers: int = setting(4, low=1)
    n_dense_layers: int = setting(1, low=0)  # the first layers, without experts
    q_rank: int = setting(0, low=0)  # rank of the queries' down-projection; 0: none
    kv_rank: int = setting(64, low=1)  # size of the latent vector for keys and values
    head_size: int = setting(32, low=1)  # of queries and keys, without the rotary part
    rotary_size: int = setting(16, low=2)  # rotary part of queries and keys; keys share it over heads
    value_size: int = setting(32, low=1)
    moe: MixtureConfig = DEFAULT_MIXTURE
    norm_eps: float = setting(1e-6, low=0.0)
    rope_theta: float = setting(10_000.0, low=1.0, formerly="rotary_base")
    rope_scaling_factor: float = setting(1.0, low=1.0, formerly="rotary_stretch")  # YaRN
    rope_original_length: int = setting(4096, low=1, formerly="rotary_length")  # longest text before YaRN scaling
    tie_embeddings: bool = setting(False, formerly="tied")  # input and output embeddings are one matrix
    dropout: float = setting(0.0, low=0.0, below=1.0)
    vocab_size: int = setting(0, low=0)  # 0: the tokenizer's

    def __post_init__(self) -> None:
        if self.rotary_size % 2:
            raise ConfigError(f"model.rotary_size = {self.rotary_size} must be even: dimensions are rotated in pairs")

    @property
    def attention(self) -> LatentAttentionConfig:
        return LatentAttentionConfig(
            q_rank=self.q_rank,
            kv_rank=self.kv_rank,
            head_size=self.head_size,
            rotary_size=self.rotary_size,
            value_size=self.value_size,
            rope_theta=self.rope_theta,
            rope_scaling_factor=self.rope_scaling_factor,
            rope_original_length=self.rope_original_length,
        )

    presets: ClassVar[dict[str, dict[str, Any]]] = {
        # DeepSeek-AI 2024, without multi-token prediction
        "deepseek-v3": {
            "d_model": 7168, "n_heads": 128, "d_ff": 18_432, "n_layers": 61, "n_dense_layers": 3,
            "q_rank": 1536, "kv_rank": 512, "head_size": 128, "rotary_size": 64, "value_size": 128,
            "rope_scaling_factor": 40.0,
            "moe": {
                "n_experts": 256, "experts_per_token": 8, "n_shared_experts": 1, "d_ff": 2048, "n_groups": 8,
                "groups_per_token": 4, "routed_scaling_factor": 2.5,
            },
        },
    }  # fmt: skip
    preset_vocabularies: ClassVar[dict[str, int]] = {"deepseek-v3": 129_280}

    needs_tokenizer: ClassVar[bool] = False  # Regard cannot read the tokenizer of an imported DeepSeek

    @property
    def title(self) -> str:
        return "A DeepSeek model"
