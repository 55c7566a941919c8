"""The Transformer of "Attention Is All You Need" (Vaswani et al. 2017).

The encoder maps the source to vectors; the decoder generates the target token by token, attending to the tokens so far
and to the encoder output. With the default settings this is the paper's model: post-norm, sinusoidal positions, ReLU,
one embedding matrix. `TransformerConfig` selects pre-norm, other positions, norms and feed-forward networks, and
mixtures of experts. A pre-norm stack ends with one more norm.

Shapes: B batch, L target length, M source length, D model, V vocabulary, R rows of a search.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from regard.config import AttentionConfig, AttentionRole, TransformerConfig, feed_forward_block, to_dict
from regard.core.attention.build import Attention, build_attention, share_between_layers
from regard.core.attention.linformer import LengthProjection
from regard.core.attention.multi_head import Cache
from regard.core.cache import DecoderCaches, FixedCache
from regard.core.dropout import Dropout
from regard.core.embeddings import Embedding, build_embeddings
from regard.core.linear import Linear, linear
from regard.core.masks import CausalMask, Mask, padding_mask
from regard.core.moe import Experts, Router, build_ffn
from regard.core.norms import build_norm
from regard.core.positions import Positions, build_positions
from regard.core.residual import Residual
from regard.core.reversible import Sublayer, run_reversibly
from regard.core.taps import Tap
from regard.models.translation_model import TranslationModel
from regard.tokenizers.special_ids import PAD


def build_heads(config: TransformerConfig, role: AttentionRole, layer: int) -> Attention:
    c = config
    kind = {"encoder": c.attention, "decoder": c.decoder_attention, "cross": c.cross_attention}[role]
    return build_attention(kind, c.d_model, c.n_heads, role, c.attention_dropout, layer=layer)


def build_feed_forward(config: TransformerConfig, beside: AttentionConfig) -> nn.Module:
    c, block = config, feed_forward_block(beside)
    return build_ffn(c.d_model, c.d_ff, c.ffn, c.activation_dropout, True, to_dict(c.moe), block)


def build_residual(config: TransformerConfig) -> Residual:
    return Residual(config.d_model, config.norm_order, config.norm, config.dropout)


def mean_of(streams: tuple[Tensor, Tensor], like: Tensor) -> Tensor:
    """What comes out of reversible layers, as in the authors' code."""
    return ((streams[0] + streams[1]) / 2).to(like.dtype)


class EncoderLayer(nn.Module):
    """Self-attention over the source, then the feed-forward network."""

    def __init__(self, config: TransformerConfig, layer: int = 0) -> None:
        super().__init__()
        self.attention = build_heads(config, "encoder", layer)
        self.ffn = build_feed_forward(config, config.attention)
        self.around_attention, self.around_ffn = build_residual(config), build_residual(config)

    def forward(self, x_BMD: Tensor, mask: Tensor, bias: Tensor | None, positions: Positions) -> Tensor:
        normed = self.around_attention.before(x_BMD)
        x_BMD = self.around_attention.after(x_BMD, self.attention(normed, None, mask, bias, positions))
        return self.around_ffn.after(x_BMD, self.ffn(self.around_ffn.before(x_BMD)))

    def sublayers(self, mask: Tensor, positions: Positions) -> list[Sublayer]:
        """The same two, for reversible layers; what they are given is the bias."""
        return [
            Sublayer(self.around_attention, self.attention, lambda x, b: self.attention(x, None, mask, b, positions)),
            Sublayer(self.around_ffn, self.ffn, lambda x, _: self.ffn(x)),
        ]


class DecoderLayer(nn.Module):
    """Masked self-attention over the target, cross-attention to the source, then the feed-forward network."""

    def __init__(self, config: TransformerConfig, layer: int = 0) -> None:
        super().__init__()
        self.attention = build_heads(config, "decoder", layer)
        self.cross = build_heads(config, "cross", layer)
        self.ffn = build_feed_forward(config, config.decoder_attention)
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
        positions: Positions,
        own: Cache | None = None,
        memory: FixedCache | None = None,
    ) -> Tensor:
        """`own` and `memory` are the caches of a search; None in training and tracing."""
        normed = self.around_attention.before(x_BLD)
        x_BLD = self.around_attention.after(x_BLD, self.attention(normed, None, mask, bias, positions, own))
        normed = self.around_cross.before(x_BLD)
        x_BLD = self.around_cross.after(x_BLD, self.cross(normed, memory_BMD, memory_mask, cache=memory))
        return self.around_ffn.after(x_BLD, self.ffn(self.around_ffn.before(x_BLD)))

    def sublayers(
        self,
        mask: Mask | None,
        memory_mask: Tensor,
        positions: Positions,
        own: Cache | None = None,
        memory: FixedCache | None = None,
    ) -> list[Sublayer]:
        """The same three, for reversible layers; what they are given are the encoder's output and the bias."""

        def attend(x_BLD: Tensor, _: Tensor | None, bias: Tensor | None) -> Tensor:
            return self.attention(x_BLD, None, mask, bias, positions, own)  # type: ignore[no-any-return]

        def cross(x_BLD: Tensor, memory_BMD: Tensor | None, _: Tensor | None) -> Tensor:
            return self.cross(x_BLD, memory_BMD, memory_mask, cache=memory)  # type: ignore[no-any-return]

        return [
            Sublayer(self.around_attention, self.attention, attend),
            Sublayer(self.around_cross, self.cross, cross),
            Sublayer(self.around_ffn, self.ffn, lambda x, *_: self.ffn(x)),
        ]


class Transformer(TranslationModel):
    """ids to logits. `encode` and `decode` are its halves; `begin` and `step` decode token by token."""

    def __init__(self, config: TransformerConfig, initialise: bool = True) -> None:
        super().__init__()
        self.config = config
        # Dtype of the activations; None: that of the weights. Training in bf16 sets it and keeps float32 weights.
        self.compute_dtype: torch.dtype | None = None
        self.tgt_embedding, self.src_embedding, self.output = build_embeddings(
            config.tie_embeddings, config.src_vocab_size, config.tgt_vocab_size, config.d_model
        )
        self.reversible = config.residual == "reversible"
        self.encoder = nn.ModuleList(EncoderLayer(config, i) for i in range(config.n_encoder_layers))
        self.decoder = nn.ModuleList(DecoderLayer(config, i) for i in range(config.n_decoder_layers))
        share_between_layers(self.encoder)
        self.src_positions = self.build_positions(two_sided=True)
        self.tgt_positions = self.build_positions(two_sided=False)
        self.encoder_norm, self.decoder_norm = self.build_last_norm(), self.build_last_norm()
        self.dropout = Dropout(config.dropout)
        self.src_embedded, self.tgt_embedded, self.memory, self.logits = Tap(), Tap(), Tap(), Tap()
        self.output_bias = nn.Parameter(torch.zeros(config.tgt_vocab_size)) if config.output_bias else None
        if initialise:
            self.initialise()

    def build_positions(self, two_sided: bool) -> Positions:
        c = self.config
        return build_positions(c.position, c.d_model, c.n_heads, c.max_positions, two_sided)

    def build_last_norm(self) -> nn.Module:
        return build_norm(self.config.norm, self.config.d_model) if self.config.norm_order == "pre" else nn.Identity()

    def initialise(self) -> None:
        """Xavier for the matrices, 1/sqrt(D) for the embeddings (so that times sqrt(D) gives variance 1)."""
        for module in self.modules():
            match module:
                case Linear():
                    nn.init.xavier_uniform_(module.weight)
                    nn.init.zeros_(module.bias)
                case Experts():
                    for matrix in module.matrices():
                        nn.init.xavier_uniform_(matrix)
                case Router():
                    nn.init.xavier_uniform_(module.weight)
                case LengthProjection():
                    module.initialise()
                case Embedding():
                    nn.init.normal_(module.weight, std=self.config.d_model**-0.5)
                    with torch.no_grad():
                        module.weight[PAD].zero_()
                case Positions():
                    for parameter in module.parameters():
                        nn.init.normal_(parameter, std=0.02)

    @property
    def longest_target(self) -> int | None:
        """The maximum length of a target, in tokens; None: no limit."""
        return self.config.max_positions if self.config.position == "learned" else None

    def forward(self, src_BM: Tensor, tgt_BL: Tensor) -> Tensor:
        """logits_BLV of the token after each target position."""
        return self.project(self.hidden(src_BM, tgt_BL))

    def hidden(self, src_BM: Tensor, tgt_BL: Tensor) -> Tensor:
        """hidden_BLD, the input of the projection to the vocabulary."""
        return self.decode(tgt_BL, self.encode(src_BM), padding_mask(src_BM, PAD))

    def project(self, hidden_BLD: Tensor) -> Tensor:
        return self.logits(linear(hidden_BLD, self.output.weight, self.output_bias))  # type: ignore[no-any-return]

    def embed(self, embedding: Embedding, positions: Positions, ids_BL: Tensor, start: int = 0) -> Tensor:
        x_BLD = positions.add(embedding(ids_BL), start)
        return self.dropout(x_BLD.to(self.compute_dtype or x_BLD.dtype))  # type: ignore[no-any-return]

    def encode(self, src_BM: Tensor) -> Tensor:
        """memory_BMD: the encoder output, one vector per source token."""
        x_BMD = self.src_embedded(self.embed(self.src_embedding, self.src_positions, src_BM))
        mask = padding_mask(src_BM, PAD)
        bias = self.src_positions.bias(src_BM.shape[1], src_BM.shape[1])
        if self.reversible:
            sublayers = [one for layer in self.encoder for one in layer.sublayers(mask, self.src_positions)]  # type: ignore[operator]
            x_BMD = mean_of(run_reversibly(sublayers, x_BMD, bias), x_BMD)
        else:
            for layer in self.encoder:
                x_BMD = layer(x_BMD, mask, bias, self.src_positions)
        return self.memory(self.encoder_norm(x_BMD))  # type: ignore[no-any-return]

    def decode(self, tgt_BL: Tensor, memory_BMD: Tensor, memory_mask: Tensor) -> Tensor:
        """hidden_BLD at all target positions, with causal self-attention."""
        length = tgt_BL.shape[1]
        x_BLD = self.tgt_embedded(self.embed(self.tgt_embedding, self.tgt_positions, tgt_BL))
        mask = CausalMask(length, length, tgt_BL.device)
        bias = self.tgt_positions.bias(length, length)
        if self.reversible:
            given = mask, memory_mask, self.tgt_positions
            sublayers = [one for layer in self.decoder for one in layer.sublayers(*given)]  # type: ignore[operator]
            return self.finish(mean_of(run_reversibly(sublayers, x_BLD, memory_BMD, bias), x_BLD))
        for layer in self.decoder:
            x_BLD = layer(x_BLD, memory_BMD, mask, memory_mask, bias, self.tgt_positions)
        return self.finish(x_BLD)

    def finish(self, x_BLD: Tensor) -> Tensor:
        """From the residual stream after the last layer to the input of the output projection."""
        return self.decoder_norm(x_BLD)  # type: ignore[no-any-return]

    def begin(self, src_BM: Tensor, max_length: int) -> DecoderCaches:
        """Encode, and create caches for `max_length` target tokens; one row per sentence."""
        memory_BMD = self.encode(src_BM)
        own = [layer.attention.new_cache(len(src_BM), max_length, memory_BMD) for layer in self.decoder]  # type: ignore[union-attr, operator]
        memories = [FixedCache(*layer.cross.keys_and_values(memory_BMD)) for layer in self.decoder]  # type: ignore[union-attr, operator]
        return DecoderCaches(own, memories, padding_mask(src_BM, PAD))

    def step(self, tokens_R: Tensor, state: DecoderCaches) -> Tensor:
        """Feed one token per row; logits_RV of the next."""
        start = state.length
        x_R1D = self.tgt_embedded(self.embed(self.tgt_embedding, self.tgt_positions, tokens_R[:, None], start))
        bias = self.tgt_positions.bias(1, start + 1)
        layers: list[Any] = list(zip(self.decoder, state.own, state.memories, strict=True))
        if self.reversible:
            given = None, state.memory_mask, self.tgt_positions
            sublayers = [one for layer, *caches in layers for one in layer.sublayers(*given, *caches)]
            x_R1D = mean_of(run_reversibly(sublayers, x_R1D, None, bias, undo=False), x_R1D)
            return self.project(self.finish(x_R1D))[:, 0]
        for layer, own, memory in layers:
            x_R1D = layer(x_R1D, None, None, state.memory_mask, bias, self.tgt_positions, own, memory)
        return self.project(self.finish(x_R1D))[:, 0]
