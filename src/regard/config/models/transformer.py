"""The encoder–decoder Transformer of "Attention Is All You Need"."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from regard.config.attention import FULL_ATTENTION, AttentionConfig, AttentionRole, check_attention
from regard.config.models.base import (
    ONE_VOCABULARY,
    FeedForwardChoice,
    NormKind,
    NormOrder,
    Position,
    ResidualKind,
    TiedEmbeddings,
    TranslationFamily,
    check_heads,
    check_residual,
)
from regard.config.models.mixture import DEFAULT_MIXTURE, MixtureConfig
from regard.config.parsing import setting
from regard.errors import ConfigError


@dataclass(frozen=True)
class TransformerConfig(TranslationFamily):
    """The encoder–decoder Transformer. The defaults are the paper's, at size `small`."""

    family: Literal["transformer"] = field(default="transformer", kw_only=True)
    d_model: int = setting(256, low=1)
    n_heads: int = setting(4, low=1)
    d_ff: int = setting(1024, low=1)
    n_encoder_layers: int = setting(3, low=1)
    n_decoder_layers: int = setting(3, low=1)
    position: Position = "sinusoidal"
    max_positions: int = setting(1024, low=1)  # of position = "learned"; the others have no limit
    norm_order: NormOrder = "post"
    norm: NormKind = "layernorm"
    ffn: FeedForwardChoice = "relu"  # moe: a mixture of experts
    # all: source, target and output embeddings are one matrix; output: target and output are one matrix
    tie_embeddings: TiedEmbeddings = setting("all", formerly="sharing")
    dropout: float = setting(0.1, low=0.0, below=1.0)
    attention_dropout: float = setting(0.0, low=0.0, below=1.0)
    activation_dropout: float = setting(0.0, low=0.0, below=1.0)
    src_vocab_size: int = setting(0, low=0)  # 0: the tokenizer's
    tgt_vocab_size: int = setting(0, low=0)
    output_bias: bool = False  # one bias per token, added to the logits; Marian has it
    moe: MixtureConfig = DEFAULT_MIXTURE  # used with ffn = "moe"
    attention: AttentionConfig = FULL_ATTENTION  # of the encoder
    decoder_attention: AttentionConfig = FULL_ATTENTION
    cross_attention: AttentionConfig = FULL_ATTENTION  # of the decoder to the encoder's output
    residual: ResidualKind = "standard"  # reversible: memory does not grow with the layers, which are computed again

    def __post_init__(self) -> None:
        self.check_attentions()
        check_heads(self.d_model, self.n_heads)
        check_residual(self.residual, self.ffn, self.norm_order)
        if self.position == "rotary" and (self.d_model // self.n_heads) % 2:
            raise ConfigError(
                f"model.position = 'rotary' rotates pairs of dimensions, so d_model / n_heads must be even; "
                f"it is {self.d_model // self.n_heads}"
            )
        if self.tie_embeddings == "all" and self.src_vocab_size != self.tgt_vocab_size:
            raise ConfigError(ONE_VOCABULARY)

    def check_attentions(self) -> None:
        longest = self.max_positions if self.position == "learned" else None
        roles: tuple[tuple[AttentionRole, str, AttentionConfig, int], ...] = (
            ("encoder", "attention", self.attention, self.n_encoder_layers),
            ("decoder", "decoder_attention", self.decoder_attention, self.n_decoder_layers),
            ("cross", "cross_attention", self.cross_attention, self.n_decoder_layers),
        )
        for role, name, attention, n_layers in roles:
            check_attention(
                attention,
                role,
                n_layers=n_layers,
                n_heads=self.n_heads,
                longest=longest,
                scored_positions=role != "cross" and self.position in ("alibi", "relative"),
                where=f"model.{name}",
            )

    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "tiny": {
            "d_model": 128, "n_heads": 4, "d_ff": 256, "n_encoder_layers": 4, "n_decoder_layers": 4,
            "dropout": 0.3,
        },
        "small": {
            "d_model": 256, "n_heads": 4, "d_ff": 1024, "n_encoder_layers": 3, "n_decoder_layers": 3,
            "dropout": 0.1,
        },
        "base": {
            "d_model": 512, "n_heads": 8, "d_ff": 2048, "n_encoder_layers": 6, "n_decoder_layers": 6,
            "dropout": 0.1,
        },
        "big": {
            "d_model": 1024, "n_heads": 16, "d_ff": 4096, "n_encoder_layers": 6, "n_decoder_layers": 6,
            "dropout": 0.3,
        },
    }  # fmt: skip

    @property
    def title(self) -> str:
        return "A Transformer"

    @property
    def sizes(self) -> str:
        return f"{self.n_heads} heads, d_ff {self.d_ff}"
