"""T5, the text-to-text Transformer (Raffel et al. 2020): every task has a text as input and a text as output.

Differences from the model of the 2017 paper (T5's section 2.1, and the released weights):

- Positions are biases added to the scores, one per head and distance bucket; all layers of a stack share them.
  Cross-attention has none.
- Pre-norm with RMSNorm; no biases in linear layers.
- The scores are not divided by sqrt(head size): W_Q is initialised smaller by that factor instead.
- The head size is a separate setting.
- Embeddings are not scaled; if the output is tied to them, its input is scaled by d_model^-0.5.

Shapes: B batch, L target length, M source length, D model, V vocabulary, R rows of a search.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.config import AttentionRole, T5Config, feed_forward_block, to_dict
from regard.core.attention.build import Attention, build_attention
from regard.core.attention.multi_head import Cache, MultiHeadAttention
from regard.core.cache import DecoderCaches, FixedCache
from regard.core.dropout import Dropout
from regard.core.embeddings import Embedding
from regard.core.feedforward import FeedForward
from regard.core.linear import linear
from regard.core.masks import CausalMask, Mask, padding_mask
from regard.core.moe import Experts, Router, build_ffn
from regard.core.norms import RMSNorm
from regard.core.positions import RelativePositions
from regard.core.residual import Residual
from regard.core.taps import Tap
from regard.models.translation_model import TranslationModel
from regard.tokenizers.special_ids import PAD


def build_heads(config: T5Config, role: AttentionRole) -> Attention:
    c = config
    return build_attention(
        c.attention, c.d_model, c.n_heads, role, c.dropout, head_size=c.head_size, bias=False, scale=1.0
    )


def build_feed_forward(config: T5Config) -> nn.Module:
    c, block = config, feed_forward_block(config.attention)
    return build_ffn(c.d_model, c.d_ff, c.ffn, c.dropout, False, to_dict(c.moe), block)


def build_residual(config: T5Config) -> Residual:
    return Residual(config.d_model, "pre", "rmsnorm", config.dropout, config.norm_eps)


class EncoderLayer(nn.Module):
    """Self-attention over the source, then the feed-forward network, each as x + f(norm(x))."""

    def __init__(self, config: T5Config) -> None:
        super().__init__()
        self.attention, self.ffn = build_heads(config, "encoder"), build_feed_forward(config)
        self.around_attention, self.around_ffn = build_residual(config), build_residual(config)

    def forward(self, x_BMD: Tensor, mask: Tensor, bias: Tensor | None) -> Tensor:
        normed = self.around_attention.before(x_BMD)
        x_BMD = self.around_attention.after(x_BMD, self.attention(normed, mask=mask, bias=bias))
        return self.around_ffn.after(x_BMD, self.ffn(self.around_ffn.before(x_BMD)))


class DecoderLayer(nn.Module):
    """Masked self-attention over the target, cross-attention to the source, then the feed-forward network."""

    def __init__(self, config: T5Config) -> None:
        super().__init__()
        self.attention, self.cross, self.ffn = (
            build_heads(config, "decoder"),
            build_heads(config, "cross"),
            build_feed_forward(config),
        )
        self.around_attention, self.around_cross, self.around_ffn = (
            build_residual(config),
            build_residual(config),
            build_residual(config),
        )

    def forward(
        self,
        x_BLD: Tensor,
        memory_BMD: Tensor | None,
        mask: Mask | None,
        memory_mask: Tensor,
        bias: Tensor | None,
        own: Cache | None = None,
        memory: FixedCache | None = None,
    ) -> Tensor:
        """`own` and `memory` are the caches of a search; None in training and tracing."""
        normed = self.around_attention.before(x_BLD)
        x_BLD = self.around_attention.after(x_BLD, self.attention(normed, mask=mask, bias=bias, cache=own))
        normed = self.around_cross.before(x_BLD)
        x_BLD = self.around_cross.after(x_BLD, self.cross(normed, memory_BMD, memory_mask, cache=memory))
        return self.around_ffn.after(x_BLD, self.ffn(self.around_ffn.before(x_BLD)))


class T5(TranslationModel):
    """ids to logits. `encode` and `decode` are its halves; `begin` and `step` decode token by token."""

    def __init__(self, config: T5Config, initialise: bool = True) -> None:
        super().__init__()
        self.config = config
        self.compute_dtype: torch.dtype | None = None
        size, d_model = config.tgt_vocab_size, config.d_model
        self.tgt_embedding = self.src_embedding = Embedding(size, d_model, scale=1.0)
        self.output = Embedding(size, d_model, scale=1.0) if config.tie_embeddings == "inputs" else self.tgt_embedding
        self.encoder = nn.ModuleList(EncoderLayer(config) for _ in range(config.n_encoder_layers))
        self.decoder = nn.ModuleList(DecoderLayer(config) for _ in range(config.n_decoder_layers))
        buckets = (config.n_buckets, config.max_distance)
        self.src_positions = RelativePositions(config.n_heads, True, *buckets)
        self.tgt_positions = RelativePositions(config.n_heads, False, *buckets)
        self.encoder_norm, self.decoder_norm = (RMSNorm(d_model, config.norm_eps) for _ in range(2))
        self.dropout = Dropout(config.dropout)
        self.src_embedded, self.tgt_embedded, self.memory, self.logits = Tap(), Tap(), Tap(), Tap()
        self.output_bias = nn.Parameter(torch.zeros(size)) if config.output_bias else None
        if initialise:
            self.initialise()

    def initialise(self) -> None:
        """Normal weights that keep the variance at 1; W_Q is smaller, because the scores are not divided.

        An unscaled output gets small weights, so that the initial predictions are nearly uniform.
        """
        c = self.config
        inner = c.n_heads * c.head_size
        for module in self.modules():
            match module:
                case MultiHeadAttention():
                    nn.init.normal_(module.qkv.weight[:inner], std=(c.d_model * c.head_size) ** -0.5)
                    nn.init.normal_(module.qkv.weight[inner:], std=c.d_model**-0.5)
                    nn.init.normal_(module.out.weight, std=inner**-0.5)
                case FeedForward():
                    nn.init.normal_(module.up.weight, std=c.d_model**-0.5)
                    nn.init.normal_(module.down.weight, std=module.down.in_features**-0.5)
                case Experts():
                    nn.init.normal_(module.up_weight, std=c.d_model**-0.5)
                    nn.init.normal_(module.down_weight, std=module.down_weight.shape[2] ** -0.5)
                case Router():
                    nn.init.normal_(module.weight, std=c.d_model**-0.5)
                case Embedding():
                    nn.init.normal_(module.weight, std=1.0)
                case RelativePositions():
                    nn.init.normal_(module.table, std=c.d_model**-0.5)
        if not c.scale_output:
            nn.init.normal_(self.output.weight, std=c.d_model**-0.5)

    @property
    def longest_target(self) -> int | None:
        return None

    def forward(self, src_BM: Tensor, tgt_BL: Tensor) -> Tensor:
        """logits_BLV of the token after each target position."""
        return self.project(self.hidden(src_BM, tgt_BL))

    def hidden(self, src_BM: Tensor, tgt_BL: Tensor) -> Tensor:
        """hidden_BLD, the input of the projection to the vocabulary."""
        return self.decode(tgt_BL, self.encode(src_BM), padding_mask(src_BM, PAD))

    def project(self, hidden_BLD: Tensor) -> Tensor:
        return self.logits(linear(hidden_BLD, self.output.weight, self.output_bias))  # type: ignore[no-any-return]

    def embed(self, ids_BL: Tensor) -> Tensor:
        x_BLD = self.tgt_embedding(ids_BL)
        return self.dropout(x_BLD.to(self.compute_dtype or x_BLD.dtype))  # type: ignore[no-any-return]

    def encode(self, src_BM: Tensor) -> Tensor:
        """memory_BMD: the encoder output, one vector per source token."""
        x_BMD = self.src_embedded(self.embed(src_BM))
        mask = padding_mask(src_BM, PAD)
        bias = self.src_positions.bias(src_BM.shape[1], src_BM.shape[1])
        for layer in self.encoder:
            x_BMD = layer(x_BMD, mask, bias)
        return self.memory(self.dropout(self.encoder_norm(x_BMD)))  # type: ignore[no-any-return]

    def decode(self, tgt_BL: Tensor, memory_BMD: Tensor, memory_mask: Tensor) -> Tensor:
        """hidden_BLD at all target positions, with causal self-attention."""
        length = tgt_BL.shape[1]
        x_BLD = self.tgt_embedded(self.embed(tgt_BL))
        mask = CausalMask(length, length, tgt_BL.device)
        bias = self.tgt_positions.bias(length, length)
        for layer in self.decoder:
            x_BLD = layer(x_BLD, memory_BMD, mask, memory_mask, bias)
        return self.finish(x_BLD)

    def finish(self, x_BLD: Tensor) -> Tensor:
        """From the residual stream after the last layer to the input of the output projection."""
        hidden_BLD = self.dropout(self.decoder_norm(x_BLD))
        return hidden_BLD * self.config.d_model**-0.5 if self.config.scale_output else hidden_BLD  # type: ignore[no-any-return]

    def begin(self, src_BM: Tensor, max_length: int) -> DecoderCaches:
        """Encode, and create caches for `max_length` target tokens; one row per sentence."""
        memory_BMD = self.encode(src_BM)
        own = [layer.attention.new_cache(len(src_BM), max_length, memory_BMD) for layer in self.decoder]  # type: ignore[union-attr, operator]
        memories = [FixedCache(*layer.cross.keys_and_values(memory_BMD)) for layer in self.decoder]  # type: ignore[union-attr, operator]
        return DecoderCaches(own, memories, padding_mask(src_BM, PAD))

    def step(self, tokens_R: Tensor, state: DecoderCaches) -> Tensor:
        """Feed one token per row; logits_RV of the next."""
        x_R1D = self.tgt_embedded(self.embed(tokens_R[:, None]))
        bias = self.tgt_positions.bias(1, state.length + 1)
        for layer, own, memory in zip(self.decoder, state.own, state.memories, strict=True):
            x_R1D = layer(x_R1D, None, None, state.memory_mask, bias, own, memory)
        return self.project(self.finish(x_R1D))[:, 0]
