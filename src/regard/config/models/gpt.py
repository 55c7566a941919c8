"""GPT: the decoder-only Transformer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from regard.config.attention import FULL_ATTENTION, AttentionConfig, check_attention
from regard.config.models.base import FeedForwardChoice, LanguageFamily, ResidualKind, check_heads, check_residual
from regard.config.models.mixture import DEFAULT_MIXTURE, MixtureConfig
from regard.config.parsing import setting


@dataclass(frozen=True)
class GptConfig(LanguageFamily):
    """The decoder-only Transformer: GPT-2's shape, small."""

    family: Literal["gpt"] = field(default="gpt", kw_only=True)
    d_model: int = setting(256, low=1)
    n_heads: int = setting(4, low=1)
    d_ff: int = setting(1024, low=1)
    n_layers: int = setting(4, low=1)
    max_positions: int = setting(256, low=1)  # context length, in tokens
    ffn: FeedForwardChoice = "gelu_tanh"
    norm_eps: float = setting(1e-5, low=0.0)
    dropout: float = setting(0.1, low=0.0, below=1.0)
    attention_dropout: float = setting(0.1, low=0.0, below=1.0)
    vocab_size: int = setting(0, low=0)  # 0: the tokenizer's
    moe: MixtureConfig = DEFAULT_MIXTURE  # used with ffn = "moe"
    attention: AttentionConfig = FULL_ATTENTION
    # reversible: memory does not grow with the layers, which are computed again; the output has a matrix of its own
    residual: ResidualKind = "standard"

    def __post_init__(self) -> None:
        check_attention(self.attention, "decoder", n_layers=self.n_layers, n_heads=self.n_heads)
        check_heads(self.d_model, self.n_heads)
        check_residual(self.residual, self.ffn)

    presets: ClassVar[dict[str, dict[str, Any]]] = {
        # for text as characters, on a CPU
        "gpt-small": {
            "d_model": 384, "n_heads": 6, "d_ff": 1536, "n_layers": 6, "max_positions": 256,
            "dropout": 0.2,
        },
        # Radford et al. 2019, the smallest of four
        "gpt2": {
            "d_model": 768, "n_heads": 12, "d_ff": 3072, "n_layers": 12, "max_positions": 1024,
        },
        # Brown et al. 2020, the largest of eight
        "gpt3": {
            "d_model": 12_288, "n_heads": 96, "d_ff": 49_152, "n_layers": 96, "max_positions": 2048,
        },
    }  # fmt: skip
    preset_vocabularies: ClassVar[dict[str, int]] = {"gpt2": 50_257, "gpt3": 50_257}

    @property
    def needs_tokenizer(self) -> bool:  # type: ignore[override]
        """Regard cannot read the tokenizer of an imported Reformer."""
        return self.residual == "standard"

    @property
    def title(self) -> str:
        return "A GPT"
