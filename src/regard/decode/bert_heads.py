"""BERT without torch: its layers in the engine, its heads in numpy, as models/bert.py has them.

Shapes: L length, D model, N masks, V vocabulary, C classes or tags.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from regard.config import BertConfig, BertHead
from regard.decode.engine import Engine
from regard.decode.engine_texts import encode_texts
from regard.decode.engine_weights import Weights, as_float32
from regard.decode.numpy_transformer import ACTIVATIONS
from regard.errors import ConfigError

Array = npt.NDArray[np.float32]


class EngineEncoder:
    def __init__(self, engine: Engine, config: BertConfig, weights: Weights) -> None:
        self.engine, self.config, self.weights = engine, config, weights

    def encode(self, texts: Sequence[Sequence[int]]) -> list[Array]:
        """hidden_LD of each text, given with its first and last token."""
        return encode_texts(self.engine, texts)

    def masked_logits(self, hidden_ND: Array) -> Array:
        """logits_NV of the token at each of these positions."""
        self.check_head("masked")
        kind = "gelu" if self.config.ffn == "moe" else self.config.ffn
        x_ND = ACTIVATIONS[kind](self.linear("masked_head.map", hidden_ND))
        x_ND = x_ND - x_ND.mean(axis=-1, keepdims=True)
        x_ND = x_ND / np.sqrt(np.square(x_ND).mean(axis=-1, keepdims=True) + np.float32(self.config.norm_eps))
        x_ND = x_ND * self.weight("masked_head.norm.weight") + self.weight("masked_head.norm.bias")
        logits_NV: Array = x_ND @ self.embedding_VD.T + self.weight("masked_head.bias_V")
        return logits_NV

    def class_logits(self, hidden_LD: Array) -> Array:
        """logits_C of the text's class."""
        self.check_head("classes")
        return self.linear("class_head", np.tanh(self.linear("pooler.map", hidden_LD[0])))

    def tag_logits(self, hidden_LD: Array) -> Array:
        """logits_LC of each token's tag."""
        self.check_head("tags")
        return self.linear("tag_head", hidden_LD)

    def linear(self, name: str, x: Array) -> Array:
        product: Array = x @ self.weight(f"{name}.weight").T
        return product + self.weight(f"{name}.bias")

    def weight(self, name: str) -> Array:
        return as_float32(name, self.weights)

    @functools.cached_property
    def embedding_VD(self) -> Array:  # noqa: N802
        return self.weight("embedding.weight")

    def check_head(self, name: BertHead) -> None:
        if name not in self.config.heads:
            raise ConfigError(missing_head(name, self.config))


def missing_head(name: str, config: BertConfig) -> str:
    available = ", ".join(map(repr, config.heads)) or "none"
    return f"this model has no head {name!r}; its heads (model.heads): {available}"
