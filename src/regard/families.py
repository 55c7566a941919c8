"""The settings of a model, one dataclass a family, and the sizes that have names."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from regard.errors import ConfigError
from regard.strict import divisors, setting

Position = Literal["sinusoidal", "learned", "rotary", "alibi", "relative", "none"]
NormOrder = Literal["post", "pre"]
NormKind = Literal["layernorm", "rmsnorm"]
FeedForwardKind = Literal["relu", "gelu", "swiglu"]
Sharing = Literal["all", "output", "none"]
CellKind = Literal["rnn", "gru", "lstm"]
RecurrentAttention = Literal["none", "additive", "dot"]
Bidirectional = Literal["none", "first", "all"]

ONE_VOCABULARY = (
    "model.sharing = 'all' needs one vocabulary for both languages: set data.tokenizer.joint = true, "
    "or model.sharing = 'output'"
)


@dataclass(frozen=True)
class ModelConfig:
    """The encoder–decoder Transformer. The defaults are the paper's, at size `small`."""

    family: Literal["transformer"] = field(default="transformer", kw_only=True)
    d_model: int = setting(256, low=1)
    n_heads: int = setting(4, low=1)
    d_ff: int = setting(1024, low=1)
    n_encoder_layers: int = setting(3, low=1)
    n_decoder_layers: int = setting(3, low=1)
    position: Position = "sinusoidal"
    max_positions: int = setting(1024, low=1)  # of learned positions; the others have no limit
    norm_order: NormOrder = "post"
    norm: NormKind = "layernorm"
    ffn: FeedForwardKind = "relu"
    sharing: Sharing = "all"  # all: source, target and output are one matrix; output: target and output
    dropout: float = setting(0.1, low=0.0, below=1.0)
    attention_dropout: float = setting(0.0, low=0.0, below=1.0)
    activation_dropout: float = setting(0.0, low=0.0, below=1.0)
    src_vocab_size: int = setting(0, low=0)  # 0: the tokenizer's
    tgt_vocab_size: int = setting(0, low=0)

    def __post_init__(self) -> None:
        if self.d_model % self.n_heads:
            raise ConfigError(
                f"model.n_heads = {self.n_heads} does not divide model.d_model = {self.d_model}: every head gets "
                f"d_model / n_heads dimensions, so take one of {divisors(self.d_model)}"
            )
        if self.position == "rotary" and (self.d_model // self.n_heads) % 2:
            raise ConfigError(
                f"model.position = 'rotary' turns pairs of dimensions, so d_model / n_heads must be even; "
                f"it is {self.d_model // self.n_heads}"
            )
        if self.sharing == "all" and self.src_vocab_size != self.tgt_vocab_size:
            raise ConfigError(ONE_VOCABULARY)


@dataclass(frozen=True)
class RecurrentConfig:
    """The recurrent encoder–decoder, without attention or with it."""

    family: Literal["recurrent"] = field(default="recurrent", kw_only=True)
    cell: CellKind = "lstm"
    attention: RecurrentAttention = "additive"  # none: the sentence is one vector; additive: Bahdanau's; dot: Luong's
    d_model: int = setting(256, low=1)  # units of a layer, each direction, and size of the embeddings
    n_encoder_layers: int = setting(1, low=1)
    n_decoder_layers: int = setting(1, low=1)
    bidirectional: Bidirectional = "first"  # which encoder layers read the sentence from both ends
    residual: bool = False  # x + layer(x), from the third layer on
    deep_output: bool = True  # the prediction sees context and last word too, not the state alone
    sharing: Sharing = "all"  # all: source, target and output are one matrix; output: target and output
    dropout: float = setting(0.2, low=0.0, below=1.0)
    src_vocab_size: int = setting(0, low=0)  # 0: the tokenizer's
    tgt_vocab_size: int = setting(0, low=0)

    def __post_init__(self) -> None:
        if self.sharing == "all" and self.src_vocab_size != self.tgt_vocab_size:
            raise ConfigError(ONE_VOCABULARY)


# A model of any family. The first is meant where a recipe or a model folder does not say: once it was the only one.
FamilyConfig = ModelConfig | RecurrentConfig


PRESETS: dict[str, dict[str, Any]] = {
    "tiny": {"d_model": 128, "n_heads": 4, "d_ff": 256, "n_encoder_layers": 4, "n_decoder_layers": 4, "dropout": 0.3},
    "small": {"d_model": 256, "n_heads": 4, "d_ff": 1024, "n_encoder_layers": 3, "n_decoder_layers": 3, "dropout": 0.1},
    "base": {"d_model": 512, "n_heads": 8, "d_ff": 2048, "n_encoder_layers": 6, "n_decoder_layers": 6, "dropout": 0.1},
    "big": {"d_model": 1024, "n_heads": 16, "d_ff": 4096, "n_encoder_layers": 6, "n_decoder_layers": 6, "dropout": 0.3},
    # Sutskever et al. 2014: four layers, one vector between the languages.
    "lstm": {
        "family": "recurrent", "cell": "lstm", "attention": "none", "d_model": 1000, "n_encoder_layers": 4,
        "n_decoder_layers": 4, "bidirectional": "none", "deep_output": False, "sharing": "none",
    },
    # Bahdanau et al. 2015: one layer, read from both ends, attended to.
    "bahdanau": {
        "family": "recurrent", "cell": "gru", "attention": "additive", "d_model": 1000, "n_encoder_layers": 1,
        "n_decoder_layers": 1, "bidirectional": "first", "deep_output": True, "sharing": "none",
    },
    # Wu et al. 2016: eight layers and eight.
    "gnmt": {
        "family": "recurrent", "cell": "lstm", "attention": "additive", "d_model": 1024, "n_encoder_layers": 8,
        "n_decoder_layers": 8, "bidirectional": "first", "residual": True, "deep_output": False, "sharing": "none",
    },
}  # fmt: skip
