"""T5 (Raffel et al. 2020)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from regard.config.attention import FULL_ATTENTION, AttentionConfig, check_attention
from regard.config.models.base import FeedForwardChoice, TrainingTask, TranslationFamily
from regard.config.models.mixture import DEFAULT_MIXTURE, MixtureConfig
from regard.config.parsing import setting
from regard.errors import ConfigError

T5TiedEmbeddings = Literal["all", "inputs"]


@dataclass(frozen=True)
class T5Config(TranslationFamily):
    """T5 (Raffel et al. 2020). The defaults are the paper's, at size `small`."""

    family: Literal["t5"] = field(default="t5", kw_only=True)
    d_model: int = setting(512, low=1)
    n_heads: int = setting(8, low=1)
    head_size: int = setting(64, low=1)  # n_heads · head_size need not equal d_model
    d_ff: int = setting(2048, low=1)
    n_encoder_layers: int = setting(6, low=1)
    n_decoder_layers: int = setting(6, low=1)
    ffn: FeedForwardChoice = "relu"  # T5 1.1 and mT5: geglu
    n_buckets: int = setting(32, low=4)  # buckets of relative distance, one bias per head each
    max_distance: int = setting(128, low=2)  # larger distances share the last bucket
    norm_eps: float = setting(1e-6, low=0.0)
    # all: source, target and output embeddings are one matrix; inputs (T5 1.1, mT5): source and target are one matrix
    tie_embeddings: T5TiedEmbeddings = setting("all", formerly="sharing")
    scale_output: bool = True  # multiply the decoder's output by d_model^-0.5; T5 1.1 and mT5: false
    dropout: float = setting(0.1, low=0.0, below=1.0)
    src_vocab_size: int = setting(0, low=0)  # 0: the tokenizer's
    tgt_vocab_size: int = setting(0, low=0)
    moe: MixtureConfig = DEFAULT_MIXTURE  # used with ffn = "moe"
    output_bias: bool = False  # one bias per token, added to the logits; some imported models have it
    attention: AttentionConfig = FULL_ATTENTION

    def __post_init__(self) -> None:
        # Kinds with settings per layer are refused, because all of T5's positions act on the scores.
        n_layers = self.n_encoder_layers
        check_attention(self.attention, "encoder", n_layers=n_layers, n_heads=self.n_heads, scored_positions=True)
        if self.max_distance <= self.n_buckets // 2:
            raise ConfigError(
                f"model.max_distance = {self.max_distance} must be more than half of model.n_buckets = "
                f"{self.n_buckets}, the number of distances with a bucket of their own"
            )
        if self.src_vocab_size != self.tgt_vocab_size:
            raise ConfigError("T5 needs one vocabulary for both languages: set data.tokenizer.joint = true")

    presets: ClassVar[dict[str, dict[str, Any]]] = {
        # Raffel et al. 2020, section 3.7: two of the released sizes
        "t5-small": {
            "d_model": 512, "n_heads": 8, "head_size": 64, "d_ff": 2048, "n_encoder_layers": 6,
            "n_decoder_layers": 6,
        },
        "t5-base": {
            "d_model": 768, "n_heads": 12, "head_size": 64, "d_ff": 3072, "n_encoder_layers": 12,
            "n_decoder_layers": 12,
        },
    }  # fmt: skip
    preset_vocabularies: ClassVar[dict[str, int]] = {"t5-small": 32_128, "t5-base": 32_128}
    fixed_settings: ClassVar[dict[str, Any]] = {"position": "relative", "norm_order": "pre", "norm": "rmsnorm"}

    @property
    def title(self) -> str:
        return "A T5"

    @property
    def sizes(self) -> str:
        return f"{self.n_heads} heads of {self.head_size}, d_ff {self.d_ff}"

    def task(self, running_text: bool) -> TrainingTask | None:
        return "span_corruption" if running_text else "translation"
