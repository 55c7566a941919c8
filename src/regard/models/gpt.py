"""GPT: the decoder-only Transformer (Radford et al. 2018, 2019; Brown et al. 2020).

GPT-2's architecture: causal self-attention, no cross-attention; learned positions; pre-norm and a final norm; the tanh
approximation of GELU; one matrix for embeddings and output. GPT-3 differs in its sizes, and in every second layer's
attention, which is sparse there and dense here. With reversible layers and LSH attention it is Reformer's architecture.

Shapes: B batch, L length, D model, V vocabulary, R rows = texts being generated.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from regard.config import GptConfig, feed_forward_block, to_dict
from regard.core.attention.build import build_attention
from regard.core.attention.multi_head import Cache
from regard.core.dropout import Dropout
from regard.core.embeddings import Embedding
from regard.core.linear import Linear
from regard.core.masks import CausalMask, Mask
from regard.core.moe import Experts, Router, build_ffn
from regard.core.norms import LayerNorm
from regard.core.positions import LearnedPositions
from regard.core.residual import Residual
from regard.core.reversible import Sublayer, run_reversibly
from regard.core.taps import Tap
from regard.models.language_model import LanguageModel, TextState

INITIAL_STD = 0.02  # of the weights


def build_residual(config: GptConfig) -> Residual:
    return Residual(config.d_model, "pre", "layernorm", config.dropout, config.norm_eps)


class Layer(nn.Module):
    """Causal self-attention, then the feed-forward network, each as x + f(norm(x))."""

    def __init__(self, config: GptConfig, layer: int = 0) -> None:
        super().__init__()
        c = config
        self.attention = build_attention(c.attention, c.d_model, c.n_heads, "decoder", c.attention_dropout, layer=layer)
        block = feed_forward_block(c.attention)
        self.ffn = build_ffn(c.d_model, c.d_ff, c.ffn, 0.0, True, to_dict(c.moe), block)
        self.around_attention, self.around_ffn = build_residual(config), build_residual(config)

    def forward(self, x_BLD: Tensor, mask: Mask | None, cache: Cache | None = None) -> Tensor:
        normed = self.around_attention.before(x_BLD)
        x_BLD = self.around_attention.after(x_BLD, self.attention(normed, mask=mask, cache=cache))
        return self.around_ffn.after(x_BLD, self.ffn(self.around_ffn.before(x_BLD)))

    def sublayers(self, mask: Mask | None, cache: Cache | None = None) -> list[Sublayer]:
        """The same two, for reversible layers."""
        attend = partial(self.attention, mask=mask, cache=cache)
        return [
            Sublayer(self.around_attention, self.attention, attend),
            Sublayer(self.around_ffn, self.ffn, self.ffn),
        ]


class Gpt(LanguageModel):
    """ids to logits of the next tokens. `begin` and `read` run it incrementally, with a cache."""

    def __init__(self, config: GptConfig, initialise: bool = True) -> None:
        super().__init__()
        self.config = config
        self.compute_dtype: torch.dtype | None = None
        self.embedding = self.output = Embedding(config.vocab_size, config.d_model, scale=1.0)
        self.reversible, width = config.residual == "reversible", config.d_model
        if self.reversible:  # both streams side by side, as in the authors' code
            width = 2 * config.d_model
            self.output = Embedding(config.vocab_size, width, scale=1.0)
        self.positions = LearnedPositions(config.d_model, config.max_positions)
        self.dropout = Dropout(config.dropout)
        self.layers = nn.ModuleList(Layer(config, i) for i in range(config.n_layers))
        self.last_norm = LayerNorm(width, config.norm_eps)
        self.embedded, self.last, self.logits = Tap(), Tap(), Tap()
        if initialise:
            self.initialise()

    def initialise(self) -> None:
        """Small normal weights; those that write to the residual stream are scaled down by √(number of sublayers)."""
        n_additions = 2 * self.config.n_layers
        for name, module in self.named_modules():
            match module:
                case Linear():
                    adds = name.endswith(("attention.out", "ffn.down", "shared.down"))
                    nn.init.normal_(module.weight, std=INITIAL_STD * (n_additions**-0.5 if adds else 1.0))
                    nn.init.zeros_(module.bias)
                case Experts():
                    nn.init.normal_(module.up_weight, std=INITIAL_STD)
                    nn.init.normal_(module.down_weight, std=INITIAL_STD * n_additions**-0.5)
                case Embedding() | Router():
                    nn.init.normal_(module.weight, std=INITIAL_STD)
                case LearnedPositions():
                    nn.init.normal_(module.table_LD, std=INITIAL_STD)

    @property
    def longest_text(self) -> int | None:
        """The context length, in tokens."""
        return self.config.max_positions

    def project(self, hidden_BLD: Tensor) -> Tensor:
        return self.logits(self.output.project(hidden_BLD))  # type: ignore[no-any-return]

    def embed(self, ids_BL: Tensor, start: int) -> Tensor:
        x_BLD = self.positions.add(self.embedding(ids_BL), start)
        return self.embedded(self.dropout(x_BLD.to(self.compute_dtype or x_BLD.dtype)))  # type: ignore[no-any-return]

    def hidden(self, ids_BL: Tensor) -> Tensor:
        """hidden_BLD at all positions, with causal attention."""
        length = ids_BL.shape[1]
        x_BLD = self.embed(ids_BL, 0)
        mask = CausalMask(length, length, ids_BL.device)
        return self.last(self.last_norm(self.run(x_BLD, mask)))  # type: ignore[no-any-return]

    def run(self, x_BLD: Tensor, mask: Mask | None, caches: Sequence[Cache] | None = None) -> Tensor:
        """Through all layers."""
        of_layers: Sequence[Cache | None] = [None] * len(self.layers) if caches is None else caches
        each: list[tuple[Any, Cache | None]] = list(zip(self.layers, of_layers, strict=True))
        if self.reversible:
            sublayers = [sublayer for layer, cache in each for sublayer in layer.sublayers(mask, cache)]
            return torch.cat(run_reversibly(sublayers, x_BLD, undo=caches is None), dim=-1).to(x_BLD.dtype)
        for layer, cache in each:
            x_BLD = layer(x_BLD, mask, cache)
        return x_BLD

    def begin(self, rows: int, max_length: int) -> TextState:
        """An empty state, with caches for `max_length` tokens per row."""
        weight = self.embedding.weight
        like = weight.new_empty(0, dtype=self.compute_dtype or weight.dtype)
        return TextState([layer.attention.new_cache(rows, max_length, like) for layer in self.layers])  # type: ignore[union-attr, operator]

    def read(self, ids_RL: Tensor, state: TextState) -> Tensor:
        """hidden_RLD of these tokens, which follow those that `state` has read."""
        start, length = state.length, ids_RL.shape[1]
        x_RLD = self.embed(ids_RL, start)
        mask = CausalMask(length, start + length, ids_RL.device) if length > 1 else None
        return self.last(self.last_norm(self.run(x_RLD, mask, state.layers)))  # type: ignore[no-any-return, arg-type]
