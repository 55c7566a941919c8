"""Builds the attention module for a config of config/attention.py. Every model builds its attention here."""

from __future__ import annotations

from typing import assert_never

from regard.config.attention import AttentionConfig, AttentionRole, FullAttention, LatentAttentionConfig
from regard.core.attention.latent import LatentAttention
from regard.core.attention.multi_head import MultiHeadAttention
from regard.core.positions import RotaryPositions
from regard.errors import ConfigError

Attention = MultiHeadAttention | LatentAttention


def build_attention(
    config: AttentionConfig,
    d_model: int,
    n_heads: int,
    role: AttentionRole,
    dropout: float = 0.0,
    *,
    head_size: int | None = None,
    bias: bool = True,
    scale: float | None = None,
) -> Attention:
    """The attention that `config` describes. `head_size` None: d_model / n_heads; `scale` None: head_size^-0.5.

    `role`: self-attention of the encoder, self-attention of the decoder, or cross-attention to the encoder's output.
    """
    match config:
        case FullAttention():
            return MultiHeadAttention(d_model, n_heads, dropout, head_size=head_size, bias=bias, scale=scale)
        case LatentAttentionConfig():
            if role != "decoder":
                raise ConfigError(f"latent attention is for decoders; it cannot be used as {role} attention")
            c = config
            positions = RotaryPositions(c.rotary_size, c.rope_theta, c.rope_scaling_factor, c.rope_original_length)
            return LatentAttention(d_model, n_heads, c.head_size, c.value_size, c.kv_rank, c.q_rank, positions, dropout)
        case _:
            assert_never(config)
