"""BERT: the encoder-only Transformer (Devlin et al. 2019).

Post-norm as in the paper of 2017, learned positions, GELU; a segment embedding is added to each token's embedding, for
the first or second text of [CLS] first [SEP] second [SEP]. The hidden vectors are used through heads, which
`BertConfig.heads` selects:

    masked    predicts masked tokens: a layer, then the tied embeddings and a bias                 section 3.1
    next      predicts whether the second text follows the first                                   section 3.1
    classes   classifies the text, from the vector of the first token                              section 4.1
    tags      labels each token                                                                    section 5.3

A sentence embedding needs no head: it is the mean over the tokens (Reimers & Gurevych 2019).

Shapes: B batch, L length, D model, V vocabulary, C classes or tags.
"""

from __future__ import annotations

from typing import TypeVar

import torch
from torch import Tensor, nn

from regard.config import BertConfig, FeedForwardKind, feed_forward_block, to_dict
from regard.core.attention.build import build_attention, share_between_layers
from regard.core.attention.linformer import LengthProjection
from regard.core.dropout import Dropout
from regard.core.embeddings import Embedding
from regard.core.feedforward import activate
from regard.core.linear import Linear
from regard.core.masks import padding_mask
from regard.core.moe import Experts, Router, build_ffn
from regard.core.norms import LayerNorm
from regard.core.positions import LearnedPositions
from regard.core.residual import Residual
from regard.core.taps import Tap
from regard.errors import ConfigError
from regard.tokenizers.special_ids import PAD

INITIAL_STD, STD_WIDTH = 0.02, 768  # standard deviation of initial weights at this d_model; larger for smaller models
FOLLOWS, RANDOM = 0, 1  # the classes of `next_logits`
Part = TypeVar("Part", bound=nn.Module)


def build_residual(config: BertConfig) -> Residual:
    return Residual(config.d_model, "post", "layernorm", config.dropout, config.norm_eps)


class Layer(nn.Module):
    """Self-attention over the whole text, then the feed-forward network: norm(x + f(x)) each."""

    def __init__(self, config: BertConfig, layer: int = 0) -> None:
        super().__init__()
        c = config
        self.attention = build_attention(c.attention, c.d_model, c.n_heads, "encoder", c.attention_dropout, layer=layer)
        block = feed_forward_block(c.attention)
        self.ffn = build_ffn(c.d_model, c.d_ff, c.ffn, 0.0, True, to_dict(c.moe), block)
        self.around_attention, self.around_ffn = build_residual(config), build_residual(config)

    def forward(self, x_BLD: Tensor, mask: Tensor) -> Tensor:
        x_BLD = self.around_attention.after(x_BLD, self.attention(x_BLD, mask=mask))
        return self.around_ffn.after(x_BLD, self.ffn(x_BLD))


class Pooler(nn.Module):
    """tanh(W first token + b): hidden_BLD in, summary_BD out."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.map = Linear(d_model, d_model)

    def forward(self, hidden_BLD: Tensor) -> Tensor:
        return torch.tanh(self.map(hidden_BLD[:, 0]))


class MaskedHead(nn.Module):
    """norm(f(W x + b)), to be multiplied by the embeddings; and the bias of the logits, bias_V."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.kind: FeedForwardKind = "gelu" if config.ffn == "moe" else config.ffn
        self.map = Linear(config.d_model, config.d_model)
        self.norm = LayerNorm(config.d_model, config.norm_eps)
        self.bias_V = nn.Parameter(torch.zeros(config.vocab_size))

    def forward(self, hidden_BLD: Tensor) -> Tensor:
        return self.norm(activate(self.kind, self.map(hidden_BLD)))  # type: ignore[no-any-return]


class Bert(nn.Module):
    """ids to hidden_BLD; heads map hidden_BLD to logits."""

    def __init__(self, config: BertConfig, initialise: bool = True) -> None:
        super().__init__()
        self.config = config
        # Dtype of the activations; None: that of the weights. Training in bf16 sets it and keeps float32 weights.
        self.compute_dtype: torch.dtype | None = None
        d_model = config.d_model
        self.embedding = self.output = Embedding(config.vocab_size, d_model, scale=1.0)
        self.positions = LearnedPositions(d_model, config.max_positions)
        self.segments = Embedding(config.n_segments, d_model, scale=1.0)
        self.first_norm = LayerNorm(d_model, config.norm_eps)
        self.dropout = Dropout(config.dropout)
        self.layers = nn.ModuleList(Layer(config, i) for i in range(config.n_layers))
        share_between_layers(self.layers)
        self.pooler = Pooler(d_model) if config.pooler else None
        self.masked_head = MaskedHead(config) if "masked" in config.heads else None
        self.next_head = Linear(d_model, 2) if "next" in config.heads else None
        self.class_head = Linear(d_model, config.n_labels) if "classes" in config.heads else None
        self.tag_head = Linear(d_model, config.n_labels) if "tags" in config.heads else None
        self.embedded, self.memory, self.summary, self.logits = Tap(), Tap(), Tap(), Tap()
        if initialise:
            self.initialise()

    def initialise(self) -> None:
        """Small normal weights, zero biases; a zero embedding for padding."""
        spread = INITIAL_STD * (STD_WIDTH / self.config.d_model) ** 0.5
        for module in self.modules():
            match module:
                case Linear():
                    nn.init.normal_(module.weight, std=spread)
                    nn.init.zeros_(module.bias)
                case Experts():
                    for matrix in module.matrices():
                        nn.init.normal_(matrix, std=spread)
                case Embedding() | Router():
                    nn.init.normal_(module.weight, std=spread)
                case LearnedPositions():
                    nn.init.normal_(module.table_LD, std=spread)
                case LengthProjection():
                    module.initialise()
        with torch.no_grad():
            self.embedding.weight[PAD].zero_()

    @property
    def longest_text(self) -> int:
        """The maximum length of a text, in tokens."""
        return self.config.max_positions

    def forward(self, ids_BL: Tensor, segments_BL: Tensor | None = None) -> Tensor:
        """hidden_BLD. Without `segments_BL`, all tokens are of the first text. No token attends to padding."""
        if segments_BL is None:
            segments_BL = torch.zeros_like(ids_BL)
        x_BLD = self.positions.add(self.embedding(ids_BL) + self.segments(segments_BL), 0)
        x_BLD = self.first_norm(x_BLD.to(self.compute_dtype or x_BLD.dtype))
        x_BLD = self.embedded(self.dropout(x_BLD))
        mask = padding_mask(ids_BL, PAD)
        for layer in self.layers:
            x_BLD = layer(x_BLD, mask)
        return self.memory(x_BLD)  # type: ignore[no-any-return]

    def masked_hidden(self, hidden_BLD: Tensor) -> Tensor:
        """The input of the projection to the vocabulary, for any selection of positions of hidden_BLD."""
        return self.require_head(self.masked_head, "masked")(hidden_BLD)  # type: ignore[no-any-return]

    def masked_logits(self, hidden_BLD: Tensor) -> Tensor:
        """logits_BLV of the token at each position, for any selection of positions of hidden_BLD."""
        head = self.require_head(self.masked_head, "masked")
        logits_BLV = self.output.project(head(hidden_BLD))
        return self.logits(logits_BLV + head.bias_V.to(logits_BLV.dtype))  # type: ignore[no-any-return]

    def next_logits(self, hidden_BLD: Tensor) -> Tensor:
        """logits_B2: FOLLOWS, RANDOM."""
        return self.logits(self.require_head(self.next_head, "next")(self.pool(hidden_BLD)))  # type: ignore[no-any-return]

    def class_logits(self, hidden_BLD: Tensor) -> Tensor:
        """logits_BC of the text's class."""
        return self.logits(self.require_head(self.class_head, "classes")(self.dropout(self.pool(hidden_BLD))))  # type: ignore[no-any-return]

    def tag_logits(self, hidden_BLD: Tensor) -> Tensor:
        """logits_BLC of each token's tag."""
        return self.logits(self.require_head(self.tag_head, "tags")(self.dropout(hidden_BLD)))  # type: ignore[no-any-return]

    def pool(self, hidden_BLD: Tensor) -> Tensor:
        """summary_BD of the text, from its first token."""
        if self.pooler is None:
            raise ConfigError("this model has no pooler (model.pooler = false)")
        return self.summary(self.pooler(hidden_BLD))  # type: ignore[no-any-return]

    def sentence(self, hidden_BLD: Tensor, ids_BL: Tensor) -> Tensor:
        """sentence_BD: the mean over the tokens without padding, to be compared by cosine similarity."""
        real_BL1 = (ids_BL != PAD)[:, :, None].to(hidden_BLD.dtype)
        return (hidden_BLD * real_BL1).sum(dim=1) / real_BL1.sum(dim=1).clamp(min=1)

    def require_head(self, head: Part | None, name: str) -> Part:
        """The head, or an error if the model was built without it."""
        if head is None:
            available = ", ".join(map(repr, self.config.heads)) or "none"
            raise ConfigError(f"this model has no head {name!r}; its heads (model.heads): {available}")
        return head
