"""The models that the explorer can look inside; the others it can only translate with."""

from __future__ import annotations

from regard.config import RecurrentConfig, T5Config, TransformerConfig
from regard.config.support import FEED_FORWARDS, FULL_ONLY, MOE, Support, any_value

STACKS = any_value("d_model", "n_encoder_layers", "n_decoder_layers", "dropout", "src_vocab_size", "tgt_vocab_size")
SUPPORT = Support(
    "the explorer",
    {
        TransformerConfig: {
            "family": ("transformer",),
            "position": ("sinusoidal", "learned", "rotary", "alibi", "relative", "none"),
            "norm_order": ("post", "pre"),
            "norm": ("layernorm", "rmsnorm"),
            "ffn": (*FEED_FORWARDS, "moe"),
            "tie_embeddings": ("all", "output", "none"),
            "attention": FULL_ONLY,
            "decoder_attention": FULL_ONLY,
            "cross_attention": FULL_ONLY,
            "residual": ("standard",),
            "moe": MOE,
            **STACKS,
            **any_value("n_heads", "d_ff", "max_positions", "output_bias", "attention_dropout", "activation_dropout"),
        },
        RecurrentConfig: {
            "family": ("recurrent",),
            "cell": ("rnn", "gru", "lstm"),
            "attention": ("none", "additive", "dot"),
            "bidirectional": ("none", "first", "all"),
            "tie_embeddings": ("all", "output", "none"),
            **STACKS,
            **any_value("residual", "deep_output"),
        },
        T5Config: {
            "family": ("t5",),
            "ffn": (*FEED_FORWARDS, "moe"),
            "tie_embeddings": ("all", "inputs"),
            "attention": FULL_ONLY,
            "moe": MOE,
            **STACKS,
            **any_value("n_heads", "head_size", "d_ff", "n_buckets", "max_distance", "norm_eps", "scale_output"),
            **any_value("output_bias"),
        },
    },
)
