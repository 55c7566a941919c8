"""DeepSeek-V3 (DeepSeek-AI 2024): a decoder with latent attention and, in all layers but the first few, experts.

The two ideas are core/attention/latent.py, which makes the cache small, and core/moe.py, which makes the model large
and its steps cheap. The rest is standard: pre-norm with RMSNorm and a final norm; SwiGLU; rotary positions; no biases.
Left out: the multi-token prediction module (section 2.2), which serves training and speculative decoding and is not
needed to run the model.

Shapes: B batch, L length, D model, V vocabulary, R rows = texts being generated.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.config import DeepSeekConfig, to_dict
from regard.core.attention.build import build_attention
from regard.core.attention.latent import LatentCache
from regard.core.dropout import Dropout
from regard.core.embeddings import Embedding
from regard.core.linear import Linear
from regard.core.masks import CausalMask, Mask
from regard.core.moe import Experts, Router, build_ffn
from regard.core.norms import RMSNorm
from regard.core.residual import Residual
from regard.core.taps import Tap
from regard.models.language_model import LanguageModel, TextState

INITIAL_STD = 0.5  # of the weights, times d_model^-0.5: at the paper's d_model, its 0.006 (section 4.2)


class Layer(nn.Module):
    """Causal latent attention, then experts or a dense network, each as x + f(norm(x))."""

    def __init__(self, config: DeepSeekConfig, dense: bool) -> None:
        super().__init__()
        c = config
        self.attention = build_attention(c.attention, c.d_model, c.n_heads, "decoder")
        self.ffn = build_ffn(c.d_model, c.d_ff, "swiglu" if dense else "moe", 0.0, False, to_dict(c.moe))
        self.around_attention = Residual(c.d_model, "pre", "rmsnorm", c.dropout, c.norm_eps)
        self.around_ffn = Residual(c.d_model, "pre", "rmsnorm", c.dropout, c.norm_eps)

    def forward(self, x_BLD: Tensor, mask: Mask | None, cache: LatentCache | None = None) -> Tensor:
        normed = self.around_attention.before(x_BLD)
        x_BLD = self.around_attention.after(x_BLD, self.attention(normed, mask, cache))
        return self.around_ffn.after(x_BLD, self.ffn(self.around_ffn.before(x_BLD)))


class DeepSeek(LanguageModel):
    """ids to logits of the next tokens. `begin` and `read` run it incrementally, with a cache."""

    def __init__(self, config: DeepSeekConfig, initialise: bool = True) -> None:
        super().__init__()
        self.config = config
        self.compute_dtype: torch.dtype | None = None
        self.embedding = Embedding(config.vocab_size, config.d_model, scale=1.0)
        self.output = (
            self.embedding if config.tie_embeddings else Embedding(config.vocab_size, config.d_model, scale=1.0)
        )
        self.dropout = Dropout(config.dropout)
        self.layers = nn.ModuleList(Layer(config, i < config.n_dense_layers) for i in range(config.n_layers))
        self.last_norm = RMSNorm(config.d_model, config.norm_eps)
        self.embedded, self.last, self.logits = Tap(), Tap(), Tap()
        if initialise:
            self.initialise()

    def initialise(self) -> None:
        """Normal weights with one small standard deviation for all, as in the paper."""
        spread = INITIAL_STD * self.config.d_model**-0.5
        for module in self.modules():
            match module:
                case Linear() | Embedding() | Router():
                    nn.init.normal_(module.weight, std=spread)
                case Experts():
                    for matrix in module.matrices():
                        nn.init.normal_(matrix, std=spread)

    @property
    def longest_text(self) -> int | None:
        """No limit: rotary positions have none, although quality drops beyond the training length."""
        return None

    def project(self, hidden_BLD: Tensor) -> Tensor:
        return self.logits(self.output.project(hidden_BLD))  # type: ignore[no-any-return]

    def embed(self, ids_BL: Tensor) -> Tensor:
        x_BLD = self.embedding(ids_BL)
        return self.embedded(self.dropout(x_BLD.to(self.compute_dtype or x_BLD.dtype)))  # type: ignore[no-any-return]

    def hidden(self, ids_BL: Tensor) -> Tensor:
        """hidden_BLD at all positions, with causal attention."""
        length = ids_BL.shape[1]
        x_BLD = self.embed(ids_BL)
        mask = CausalMask(length, length, ids_BL.device)
        for layer in self.layers:
            x_BLD = layer(x_BLD, mask)
        return self.last(self.last_norm(x_BLD))  # type: ignore[no-any-return]

    def begin(self, rows: int, max_length: int) -> TextState:
        """An empty state, with caches for `max_length` tokens per row."""
        weight = self.embedding.weight
        like = weight.new_empty(0, dtype=self.compute_dtype or weight.dtype)
        return TextState([layer.attention.new_cache(rows, max_length, like) for layer in self.layers])  # type: ignore[union-attr, operator]

    def read(self, ids_RL: Tensor, state: TextState) -> Tensor:
        """hidden_RLD of these tokens, which follow those that `state` has read."""
        start, length = state.length, ids_RL.shape[1]
        x_RLD = self.embed(ids_RL)
        mask = CausalMask(length, start + length, ids_RL.device) if length > 1 else None
        for layer, cache in zip(self.layers, state.layers, strict=True):
            x_RLD = layer(x_RLD, mask, cache)
        return self.last(self.last_norm(x_RLD))  # type: ignore[no-any-return]
