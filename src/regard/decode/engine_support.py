"""The models that the engine supports. What each of them looks like to it: engine_shape.py."""

from __future__ import annotations

from typing import Any

from regard.config import BertConfig, GptConfig, MixtureConfig, T5Config, TransformerConfig
from regard.config.support import FEED_FORWARDS, FULL_ONLY, MOE, MultipleOf, SomeOf, Support, any_value

FOURS = MultipleOf(4)  # int8 products take four bytes at a time
COMMON: dict[str, Any] = {
    "d_model": FOURS,
    "d_ff": FOURS,
    "ffn": (*FEED_FORWARDS, "moe"),
    "moe": {MixtureConfig: {**MOE[MixtureConfig], "d_ff": FOURS}},
    "attention": FULL_ONLY,
    **any_value("n_heads", "dropout"),  # dropout is of training only
}

SUPPORT = Support(
    "the engine",
    {
        TransformerConfig: {
            **COMMON,
            "family": ("transformer",),
            "position": ("sinusoidal", "learned", "rotary", "alibi", "relative", "none"),
            "norm_order": ("post", "pre"),
            "norm": ("layernorm", "rmsnorm"),
            "tie_embeddings": ("all", "output", "none"),
            "decoder_attention": FULL_ONLY,
            "cross_attention": FULL_ONLY,
            "residual": ("standard",),
            **any_value("n_encoder_layers", "n_decoder_layers", "max_positions", "output_bias"),
            **any_value("src_vocab_size", "tgt_vocab_size", "attention_dropout", "activation_dropout"),
        },
        T5Config: {
            **COMMON,
            "family": ("t5",),
            "head_size": FOURS,
            "tie_embeddings": ("all", "inputs"),
            **any_value("n_encoder_layers", "n_decoder_layers", "n_buckets", "max_distance", "norm_eps"),
            **any_value("scale_output", "output_bias", "src_vocab_size", "tgt_vocab_size"),
        },
        GptConfig: {
            **COMMON,
            "family": ("gpt",),
            "residual": ("standard",),
            **any_value("n_layers", "max_positions", "norm_eps", "vocab_size", "attention_dropout"),
        },
        BertConfig: {
            **COMMON,
            "family": ("bert",),
            "heads": SomeOf(("masked", "next", "classes", "tags")),
            **any_value("n_layers", "max_positions", "n_segments", "pooler", "n_labels", "norm_eps", "vocab_size"),
            **any_value("attention_dropout"),
        },
    },
)
