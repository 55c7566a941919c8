"""The Vision Transformer (Dosovitskiy et al. 2021): an encoder over the patches of an image.

The image is cut into square patches, each mapped to a vector by a linear layer; a learned vector, the class token,
comes before them; positions are learned. The encoder is pre-norm with a final norm, and GELU. The head classifies the
output vector of the class token. Deviation: the head is one linear layer, as in the paper's fine-tuning; in its
pre-training it has a hidden layer.

Shapes: B batch, C channels, Y rows of pixels, X columns, N patches, L = N + 1 positions, D model, H heads, O classes.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.config import ViTConfig, feed_forward_block, to_dict
from regard.core.attention.build import build_attention
from regard.core.dropout import Dropout
from regard.core.linear import Linear
from regard.core.moe import Experts, Router, build_ffn
from regard.core.norms import LayerNorm
from regard.core.positions import LearnedPositions
from regard.core.residual import Residual
from regard.core.taps import Tap

INITIAL_STD = 0.02  # of the positions and the class token


class Layer(nn.Module):
    """Self-attention over all patches and the class token, then the feed-forward network, each as x + f(norm(x))."""

    def __init__(self, config: ViTConfig, layer: int = 0) -> None:
        super().__init__()
        c = config
        self.attention = build_attention(c.attention, c.d_model, c.n_heads, "encoder", c.attention_dropout, layer=layer)
        block = feed_forward_block(c.attention)
        self.ffn = build_ffn(c.d_model, c.d_ff, c.ffn, c.dropout, True, to_dict(c.moe), block)
        self.around_attention = Residual(config.d_model, "pre", "layernorm", config.dropout, config.norm_eps)
        self.around_ffn = Residual(config.d_model, "pre", "layernorm", config.dropout, config.norm_eps)

    def forward(self, x_BLD: Tensor) -> Tensor:
        x_BLD = self.around_attention.after(x_BLD, self.attention(self.around_attention.before(x_BLD)))
        return self.around_ffn.after(x_BLD, self.ffn(self.around_ffn.before(x_BLD)))


class PatchEmbedding(nn.Module):
    """W · patch + b for each patch, after the class token.   image_BCYX in, BLD out."""

    def __init__(self, d_model: int, patch_size: int, channels: int) -> None:
        super().__init__()
        self.patch_size = patch_size
        self.patches = Linear(channels * patch_size**2, d_model)
        self.class_token_D = nn.Parameter(torch.zeros(d_model))

    def forward(self, image_BCYX: Tensor) -> Tensor:
        class_token_B1D = self.class_token_D.to(image_BCYX.dtype).expand(len(image_BCYX), 1, -1)
        return torch.cat([class_token_B1D, self.patches(cut_patches(image_BCYX, self.patch_size))], dim=1)


def cut_patches(image_BCYX: Tensor, size: int) -> Tensor:
    """BNP: the patches row by row, each with all its pixels, channel after channel."""
    batch, channels, height, width = image_BCYX.shape
    squares = image_BCYX.reshape(batch, channels, height // size, size, width // size, size)
    return squares.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)


class ClassHead(Linear):
    """From the output vector of the class token to the logits of the classes."""


class ViT(nn.Module):
    """image_BCYX, with pixels normalised to (value − mean) / std, to logits_BO of the classes."""

    def __init__(self, config: ViTConfig, initialise: bool = True) -> None:
        super().__init__()
        self.config = config
        # Dtype of the activations; None: that of the weights. Training in bf16 sets it and keeps float32 weights.
        self.compute_dtype: torch.dtype | None = None
        self.embedding = PatchEmbedding(config.d_model, config.patch_size, config.channels)
        self.positions = LearnedPositions(config.d_model, (config.image_size // config.patch_size) ** 2 + 1)
        self.dropout = Dropout(config.dropout)
        self.layers = nn.ModuleList(Layer(config, i) for i in range(config.n_layers))
        self.last_norm = LayerNorm(config.d_model, config.norm_eps)
        self.head = ClassHead(config.d_model, config.n_labels)
        self.embedded, self.last, self.logits = Tap(), Tap(), Tap()
        if initialise:
            self.initialise()

    def initialise(self) -> None:
        """Xavier for the matrices; small positions and class token; a zero head, so that no class is preferred."""
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
                case LearnedPositions():
                    nn.init.normal_(module.table_LD, std=INITIAL_STD)
                case PatchEmbedding():
                    nn.init.normal_(module.class_token_D, std=INITIAL_STD)
        nn.init.zeros_(self.head.weight)

    @property
    def patches_across(self) -> int:
        """The number of patches per row and per column."""
        return self.config.image_size // self.config.patch_size

    def forward(self, image_BCYX: Tensor) -> Tensor:
        """logits_BO, from the class token."""
        return self.logits(self.head(self.hidden(image_BCYX)[:, 0]))  # type: ignore[no-any-return]

    def hidden(self, image_BCYX: Tensor) -> Tensor:
        """hidden_BLD: the output vectors of the class token (position 0) and the patches."""
        c = self.config
        if image_BCYX.shape[1:] != (c.channels, c.image_size, c.image_size):
            expected, given = (c.channels, c.image_size, c.image_size), tuple(image_BCYX.shape[1:])
            raise ValueError(f"this model takes images of (channels, height, width) = {expected}, not {given}")
        image_BCYX = image_BCYX.to(self.compute_dtype or self.head.weight.dtype)
        x_BLD = self.embedded(self.dropout(self.positions.add(self.embedding(image_BCYX), 0)))
        for layer in self.layers:
            x_BLD = layer(x_BLD)
        return self.last(self.last_norm(x_BLD))  # type: ignore[no-any-return]
