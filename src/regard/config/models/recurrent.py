"""The recurrent encoder–decoder."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from regard.config.models.base import ONE_VOCABULARY, TiedEmbeddings, TranslationFamily
from regard.config.parsing import setting
from regard.errors import ConfigError

CellKind = Literal["rnn", "gru", "lstm"]
RecurrentAttention = Literal["none", "additive", "dot"]
Bidirectional = Literal["none", "first", "all"]


@dataclass(frozen=True)
class RecurrentConfig(TranslationFamily):
    """The recurrent encoder–decoder, with or without attention."""

    family: Literal["recurrent"] = field(default="recurrent", kw_only=True)
    cell: CellKind = "lstm"
    attention: RecurrentAttention = "additive"  # additive: Bahdanau et al. 2015; dot: Luong et al. 2015
    d_model: int = setting(256, low=1)  # units per layer and direction, and embedding size
    n_encoder_layers: int = setting(1, low=1)
    n_decoder_layers: int = setting(1, low=1)
    bidirectional: Bidirectional = "first"  # which encoder layers are bidirectional
    residual: bool = False  # x + layer(x), from the third layer on
    deep_output: bool = True  # the output layer also gets the context and the last token
    # all: source, target and output embeddings are one matrix; output: target and output are one matrix
    tie_embeddings: TiedEmbeddings = setting("all", formerly="sharing")
    dropout: float = setting(0.2, low=0.0, below=1.0)
    src_vocab_size: int = setting(0, low=0)  # 0: the tokenizer's
    tgt_vocab_size: int = setting(0, low=0)

    def __post_init__(self) -> None:
        if self.tie_embeddings == "all" and self.src_vocab_size != self.tgt_vocab_size:
            raise ConfigError(ONE_VOCABULARY)

    presets: ClassVar[dict[str, dict[str, Any]]] = {
        # Sutskever et al. 2014: four layers, no attention
        "lstm": {
            "cell": "lstm", "attention": "none", "d_model": 1000, "n_encoder_layers": 4,
            "n_decoder_layers": 4, "bidirectional": "none", "deep_output": False, "tie_embeddings": "none",
        },
        # Bahdanau et al. 2015: one bidirectional layer, additive attention
        "bahdanau": {
            "cell": "gru", "attention": "additive", "d_model": 1000, "n_encoder_layers": 1,
            "n_decoder_layers": 1, "bidirectional": "first", "deep_output": True, "tie_embeddings": "none",
        },
        # Wu et al. 2016: eight encoder and eight decoder layers
        "gnmt": {
            "cell": "lstm", "attention": "additive", "d_model": 1024, "n_encoder_layers": 8,
            "n_decoder_layers": 8, "bidirectional": "first", "residual": True, "deep_output": False,
            "tie_embeddings": "none",
        },
    }  # fmt: skip

    fixed_settings: ClassVar[dict[str, Any]] = {
        "n_heads": 0,
        "d_ff": 0,
        "norm_order": None,
        "position": None,
        "ffn": None,
    }

    @property
    def title(self) -> str:
        cells = {"rnn": "A plain recurrent network", "gru": "A GRU network", "lstm": "An LSTM network"}
        return cells[self.cell]

    @property
    def sizes(self) -> str:
        return "without attention" if self.attention == "none" else f"{self.attention} attention"
