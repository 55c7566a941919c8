"""Builds the attention module for a config of config/attention.py. Every model builds its attention here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, assert_never

from torch import nn

from regard.config.attention import (
    AdaptiveSpanConfig,
    AttentionConfig,
    AttentionRole,
    BlockAttentionConfig,
    BlockwiseAttentionConfig,
    FullAttention,
    LatentAttentionConfig,
    LinformerConfig,
    LshAttentionConfig,
    RingAttentionConfig,
    SparseAttentionConfig,
    WindowAttentionConfig,
    check_role,
)
from regard.core.attention.adaptive_span import AdaptiveSpanAttention
from regard.core.attention.block import BlockAttention
from regard.core.attention.blockwise import BlockwiseAttention
from regard.core.attention.latent import LatentAttention
from regard.core.attention.linformer import Linformer
from regard.core.attention.lsh import LshAttention
from regard.core.attention.multi_head import MultiHeadAttention
from regard.core.attention.ring import RingAttention
from regard.core.attention.sparse import SparseAttention
from regard.core.attention.window import WindowAttention
from regard.core.positions import RotaryPositions

Attention = MultiHeadAttention | LatentAttention


def build_attention(
    config: AttentionConfig,
    d_model: int,
    n_heads: int,
    role: AttentionRole,
    dropout: float = 0.0,
    *,
    layer: int = 0,
    head_size: int | None = None,
    bias: bool = True,
    scale: float | None = None,
) -> Attention:
    """The attention that `config` describes. `head_size` None: d_model / n_heads; `scale` None: head_size^-0.5.

    `role`: self-attention of the encoder, self-attention of the decoder, or cross-attention to the encoder's output.
    `layer`: the number of the layer, from 0, for settings that differ by layer.
    """
    check_role(config, role, f"{config.kind} attention")
    shape: dict[str, Any] = {"head_size": head_size, "bias": bias, "scale": scale}
    match config:
        case FullAttention():
            return MultiHeadAttention(d_model, n_heads, dropout, **shape)
        case LatentAttentionConfig():
            c = config
            positions = RotaryPositions(c.rotary_size, c.rope_theta, c.rope_scaling_factor, c.rope_original_length)
            return LatentAttention(d_model, n_heads, c.head_size, c.value_size, c.kv_rank, c.q_rank, positions, dropout)
        case BlockwiseAttentionConfig():
            return BlockwiseAttention(d_model, n_heads, dropout, block=config.block, **shape)
        case WindowAttentionConfig():
            return WindowAttention(d_model, n_heads, dropout, config=config, layer=layer, **shape)
        case SparseAttentionConfig():
            return SparseAttention(d_model, n_heads, dropout, config=config, layer=layer, **shape)
        case BlockAttentionConfig():
            return BlockAttention(d_model, n_heads, dropout, config=config, **shape)
        case AdaptiveSpanConfig():
            return AdaptiveSpanAttention(d_model, n_heads, dropout, config=config, **shape)
        case LinformerConfig():
            return Linformer(d_model, n_heads, dropout, config=config, **shape)
        case LshAttentionConfig():
            return LshAttention(d_model, n_heads, dropout, config=config, layer=layer, **shape)
        case RingAttentionConfig():
            return RingAttention(d_model, n_heads, dropout, block=config.block, layout=config.layout, **shape)
        case _:
            assert_never(config)


def share_between_layers(layers: Iterable[nn.Module]) -> None:
    """Give the attentions of a stack the parameters that they share, those of the first layer."""
    first: Linformer | None = None
    for layer in layers:
        attention = layer.attention
        if isinstance(attention, Linformer) and attention.sharing == "layer":
            first = first or attention
            attention.project_k, attention.project_v = first.project_k, first.project_v
