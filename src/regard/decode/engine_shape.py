"""What the engine needs to know about a model, the same for every family: a stack of layers or two.

Shapes: D model, F feed-forward, I inner (all heads), V vocabulary.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, TypeGuard, assert_never, get_args

import numpy as np

from regard.config import (
    BertConfig,
    FeedForwardChoice,
    FeedForwardKind,
    GptConfig,
    MixtureConfig,
    Position,
    T5Config,
    TransformerConfig,
)
from regard.kernels.bindings import MixtureSettings, ModelSettings

# In the order of engine_rows.h's enumeration.
ACTIVATIONS: tuple[FeedForwardKind, ...] = ("relu", "gelu", "swiglu", "swish", "gelu_tanh", "geglu")
GATED: tuple[FeedForwardKind, ...] = ("swiglu", "geglu")
NORM_EPS = {"layernorm": 1e-5, "rmsnorm": 1e-6}
RELATIVE_BUCKETS, MAX_DISTANCE = 32, 128  # of position = "relative"
EngineConfig = TransformerConfig | T5Config | GptConfig | BertConfig  # the families that the engine has


@dataclass(frozen=True)
class Stack:
    """The names of a stack's weights."""

    layer: str  # layer i is f"{layer}.{i}"
    n_layers: int
    embedding: str
    vocabulary: int
    positions: str
    last_norm: str | None  # pre-norm only


@dataclass(frozen=True)
class Shape:
    encoder: Stack | None
    decoder: Stack | None
    d_model: int
    n_heads: int
    head_size: int
    d_ff: int
    ffn: FeedForwardChoice
    moe: MixtureConfig
    post: bool
    norm: Literal["layernorm", "rmsnorm"]
    norm_eps: float
    position: Position
    max_positions: int  # of learned positions
    output: str | None = None  # the name of the matrix of the logits
    output_bias: bool = False
    linear_bias: bool = True
    embedding_scale: float = 1.0
    score_scale: float = 1.0
    output_scale: float = 1.0
    n_buckets: int = RELATIVE_BUCKETS
    max_distance: int = MAX_DISTANCE
    first_norm: str | None = None  # of the embeddings
    segments: str | None = None  # the embeddings of segments, of which the first is added to every token
    n_segments: int = 0

    @property
    def inner(self) -> int:
        return self.n_heads * self.head_size

    @property
    def expert_d_ff(self) -> int:
        return self.moe.d_ff or self.d_ff

    @property
    def corrected(self) -> bool:
        """Whether the router of a mixture has a correction per expert."""
        return self.moe.load_balancing == "bias"

    def settings(self) -> ModelSettings:
        encoder, decoder = (0 if stack is None else stack.n_layers for stack in (self.encoder, self.decoder))
        sizes = (0 if stack is None else stack.vocabulary for stack in (self.encoder, self.decoder))
        activation = 0 if self.ffn == "moe" else ACTIVATIONS.index(self.ffn)
        return ModelSettings(
            *(self.d_model, self.n_heads, self.head_size, self.d_ff, encoder, decoder, *sizes),
            *(self.post, self.norm == "layernorm", activation, self.linear_bias, self.output_bias),
            *(
                self.position == "rotary",
                self.first_norm is not None,
                self.norm_eps,
                self.embedding_scale,
                self.score_scale,
            ),
            *(self.output_scale, self.mixture_settings()),
        )

    def mixture_settings(self) -> MixtureSettings:
        m = self.moe
        if self.ffn != "moe":
            return MixtureSettings()
        return MixtureSettings(
            *(m.n_experts, m.experts_per_token, m.n_groups, m.groups_per_token, self.expert_d_ff),
            *(m.n_shared_experts * self.expert_d_ff, ACTIVATIONS.index(m.kind), m.gate == "softmax"),
            *(m.normalise_gates, self.corrected, m.routed_scaling_factor),
        )


def has_engine(config: Any) -> TypeGuard[EngineConfig]:
    """Whether the model is of a family that the engine has; engine_support.py says which of its settings."""
    return isinstance(config, get_args(EngineConfig))


def shape_of(config: EngineConfig) -> Shape:
    match config:
        case TransformerConfig():
            return transformer_shape(config)
        case T5Config():
            return t5_shape(config)
        case GptConfig():
            return gpt_shape(config)
        case BertConfig():
            return bert_shape(config)
        case _:
            assert_never(config)


def transformer_shape(c: TransformerConfig) -> Shape:
    one_table, pre = c.tie_embeddings == "all", c.norm_order == "pre"
    source = "tgt_embedding.weight" if one_table else "src_embedding.weight"
    output = "output.weight" if c.tie_embeddings == "none" else "tgt_embedding.weight"
    head_size = c.d_model // c.n_heads
    last_norms = ("encoder_norm", "decoder_norm") if pre else (None, None)
    return Shape(
        Stack("encoder", c.n_encoder_layers, source, c.src_vocab_size, "src_positions", last_norms[0]),
        Stack("decoder", c.n_decoder_layers, "tgt_embedding.weight", c.tgt_vocab_size, "tgt_positions", last_norms[1]),
        *(c.d_model, c.n_heads, head_size, c.d_ff, c.ffn, c.moe, not pre, c.norm, NORM_EPS[c.norm]),
        *(c.position, c.max_positions),
        output=output,
        output_bias=c.output_bias,
        embedding_scale=math.sqrt(c.d_model),
        score_scale=root_scale(head_size),
    )


def t5_shape(c: T5Config) -> Shape:
    table = "tgt_embedding.weight"
    return Shape(
        Stack("encoder", c.n_encoder_layers, table, c.src_vocab_size, "src_positions", "encoder_norm"),
        Stack("decoder", c.n_decoder_layers, table, c.tgt_vocab_size, "tgt_positions", "decoder_norm"),
        *(c.d_model, c.n_heads, c.head_size, c.d_ff, c.ffn, c.moe, False, "rmsnorm", c.norm_eps, "relative", 0),
        output="output.weight" if c.tie_embeddings == "inputs" else table,
        output_bias=c.output_bias,
        linear_bias=False,
        output_scale=c.d_model**-0.5 if c.scale_output else 1.0,
        n_buckets=c.n_buckets,
        max_distance=c.max_distance,
    )


def gpt_shape(c: GptConfig) -> Shape:
    head_size = c.d_model // c.n_heads
    return Shape(
        None,
        Stack("layers", c.n_layers, "embedding.weight", c.vocab_size, "positions", "last_norm"),
        *(c.d_model, c.n_heads, head_size, c.d_ff, c.ffn, c.moe, False, "layernorm", c.norm_eps),
        *("learned", c.max_positions),
        output="embedding.weight",
        score_scale=root_scale(head_size),
    )


def bert_shape(c: BertConfig) -> Shape:
    head_size = c.d_model // c.n_heads
    return Shape(
        Stack("layers", c.n_layers, "embedding.weight", c.vocab_size, "positions", None),
        None,
        *(c.d_model, c.n_heads, head_size, c.d_ff, c.ffn, c.moe, True, "layernorm", c.norm_eps),
        *("learned", c.max_positions),
        score_scale=root_scale(head_size),
        first_norm="first_norm",
        segments="segments.weight",
        n_segments=c.n_segments,
    )


def root_scale(head_size: int) -> float:
    return float(1 / np.sqrt(np.float32(head_size)))
