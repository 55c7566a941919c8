"""The Transformer in numpy: what models/transformer.py computes, in float32, one sentence at a time.

It translates and scores where the library of the engine (decode/engine.py) cannot be loaded. It takes a model folder's
weights as they are stored, and the same models as the engine, but for mixtures of experts.

Shapes: M source length, L target length, R rows = hypotheses of one sentence, D model, H heads, K head size, V
vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from regard.config import TransformerConfig
from regard.decode.engine_positions import PositionTable
from regard.decode.engine_shape import shape_of
from regard.decode.engine_support import SUPPORT
from regard.decode.engine_weights import Weights, as_float32, list_weights
from regard.errors import ConfigError
from regard.tokenizers.special_ids import EOS

Array = npt.NDArray[np.float32]
Sublayer = Callable[[Array], Array]
erf = np.frompyfunc(math.erf, 1, 1)


class HeadsCache(NamedTuple):
    """Keys and values of one layer: (R, H, length, K), or (1, H, M, K) of the source."""

    keys: Array
    values: Array


class DecoderState:
    """What a search stores of the tokens so far, per decoder layer; all rows have the same length."""

    def __init__(self, memory: list[HeadsCache]) -> None:
        self.memory = memory
        self.own: list[HeadsCache | None] = [None] * len(memory)
        self.length = 0

    def reorder(self, rows_R: npt.NDArray[np.int64]) -> None:
        self.own = [cache and HeadsCache(cache.keys[rows_R], cache.values[rows_R]) for cache in self.own]


class NumpyTransformer:
    def __init__(self, config: TransformerConfig, weights: Weights) -> None:
        SUPPORT.check(config)
        if config.ffn == "moe":
            raise ConfigError("mixtures of experts are not computed in numpy")
        self.config = config
        shape = shape_of(config)
        self.weights: dict[str, Array] = {name: as_float32(name, weights) for name, _ in list_weights(shape)}
        self.src_positions, self.tgt_positions = (
            PositionTable(shape, stack, weights) for stack in (shape.encoder, shape.decoder) if stack is not None
        )
        self.eps = shape.norm_eps

    @property
    def longest_target(self) -> int | None:
        """The maximum length of a target, in tokens; None: no limit."""
        return self.config.max_positions if self.config.position == "learned" else None

    def encode(self, src: Sequence[int]) -> DecoderState:
        """The state of a search, with nothing decoded: one row. `src` without its EOS."""
        ids_M = [*src, EOS]
        source = "tgt" if self.config.tie_embeddings == "all" else "src"
        x_1MD = self.embed(f"{source}_embedding.weight", self.src_positions, np.array([ids_M]), 0)
        for i in range(self.config.n_encoder_layers):
            x_1MD = self.encoder_layer(f"encoder.{i}", x_1MD)
        if self.config.norm_order == "pre":
            x_1MD = self.norm("encoder_norm", x_1MD)
        return DecoderState(
            [self.memory_of(f"decoder.{i}.cross.qkv", x_1MD) for i in range(self.config.n_decoder_layers)]
        )

    def decode(self, tokens_RL: npt.NDArray[np.int64], state: DecoderState) -> Array:
        """Feed tokens after those that the state has; logits_RLV of the next ones."""
        x_RLD = self.embed("tgt_embedding.weight", self.tgt_positions, tokens_RL, state.length)
        for i, memory in enumerate(state.memory):
            x_RLD, state.own[i] = self.decoder_layer(f"decoder.{i}", x_RLD, state.own[i], memory, state.length)
        state.length += tokens_RL.shape[1]
        if self.config.norm_order == "pre":
            x_RLD = self.norm("decoder_norm", x_RLD)
        output = "output.weight" if self.config.tie_embeddings == "none" else "tgt_embedding.weight"
        logits_RLV: Array = x_RLD @ self.weights[output].T
        return logits_RLV + self.weights["output_bias"] if self.config.output_bias else logits_RLV

    def embed(self, table: str, positions: PositionTable, ids_RL: npt.NDArray[np.int64], start: int) -> Array:
        length = start + ids_RL.shape[1]
        rows_LD = positions.up_to(length).rows
        x_RLD = self.weights[table][ids_RL] * np.float32(math.sqrt(self.config.d_model))
        rotary = self.config.position == "rotary"
        return x_RLD if rows_LD is None or rotary else x_RLD + rows_LD[start:length]

    # -- layers

    def encoder_layer(self, name: str, x_1MD: Array) -> Array:
        def attend(x_1MD: Array) -> Array:
            q, k, v = self.heads(f"{name}.attention.qkv", x_1MD, 3)
            q, k = (self.rotate(self.src_positions, x, 0) for x in (q, k))
            scores = self.scores(q, k) + self.bias(self.src_positions, 0, k.shape[2])
            return self.merge(f"{name}.attention.out", scores, v)

        x_1MD = self.around(f"{name}.around_attention", attend, x_1MD)
        return self.around(f"{name}.around_ffn", lambda x: self.feed_forward(f"{name}.ffn", x), x_1MD)

    def decoder_layer(
        self, name: str, x_RLD: Array, own: HeadsCache | None, memory: HeadsCache, start: int
    ) -> tuple[Array, HeadsCache]:
        caches: list[HeadsCache] = []

        def attend(x_RLD: Array) -> Array:
            q, k, v = self.heads(f"{name}.attention.qkv", x_RLD, 3)
            q, k = (self.rotate(self.tgt_positions, x, start) for x in (q, k))
            if own is not None:
                k, v = (np.concatenate(pair, axis=2) for pair in ((own.keys, k), (own.values, v)))
            caches.append(HeadsCache(k, v))
            future_LM = np.arange(k.shape[2]) > start + np.arange(q.shape[2])[:, None]
            scores = self.scores(q, k) + self.bias(self.tgt_positions, start, k.shape[2])
            return self.merge(f"{name}.attention.out", np.where(future_LM, np.float32(-np.inf), scores), v)

        def attend_source(x_RLD: Array) -> Array:
            [q] = self.heads(f"{name}.cross.qkv", x_RLD, 1)
            return self.merge(f"{name}.cross.out", self.scores(q, memory.keys), memory.values)

        x_RLD = self.around(f"{name}.around_attention", attend, x_RLD)
        x_RLD = self.around(f"{name}.around_cross", attend_source, x_RLD)
        x_RLD = self.around(f"{name}.around_ffn", lambda x: self.feed_forward(f"{name}.ffn", x), x_RLD)
        return x_RLD, caches[0]

    def around(self, name: str, sublayer: Sublayer, x: Array) -> Array:
        """x + sublayer(norm(x)), or norm(x + sublayer(x))."""
        if self.config.norm_order == "pre":
            return x + sublayer(self.norm(f"{name}.norm", x))
        return self.norm(f"{name}.norm", x + sublayer(x))

    def norm(self, name: str, x: Array) -> Array:
        gain = self.weights[f"{name}.weight"]
        if self.config.norm == "layernorm":
            x = x - x.mean(axis=-1, keepdims=True)
        x = x / np.sqrt(np.square(x).mean(axis=-1, keepdims=True) + np.float32(self.eps)) * gain
        return x + self.weights[f"{name}.bias"] if self.config.norm == "layernorm" else x

    def linear(self, name: str, x: Array, rows: slice = slice(None)) -> Array:
        """x Wᵀ + b, of these rows of W."""
        product: Array = x @ self.weights[f"{name}.weight"][rows].T
        return product + self.weights[f"{name}.bias"][rows]

    def feed_forward(self, name: str, x: Array) -> Array:
        return self.linear(f"{name}.down", ACTIVATIONS[self.config.ffn](self.linear(f"{name}.up", x)))

    # -- attention

    def heads(self, name: str, x_RLD: Array, count: int, first: int = 0) -> list[Array]:
        """`count` of queries, keys and values, from the `first` of them on, as RHLK."""
        rows = slice(first * self.config.d_model, (first + count) * self.config.d_model)
        parts = np.split(self.linear(name, x_RLD, rows), count, axis=-1)
        H = self.config.n_heads
        return [part.reshape(*part.shape[:2], H, -1).transpose(0, 2, 1, 3) for part in parts]

    def memory_of(self, name: str, memory_1MD: Array) -> HeadsCache:
        return HeadsCache(*self.heads(name, memory_1MD, 2, first=1))

    def scores(self, q: Array, k: Array) -> Array:
        scores: Array = q @ k.swapaxes(2, 3) * np.float32(1 / math.sqrt(q.shape[3]))
        return scores

    def bias(self, positions: PositionTable, start: int, keys: int) -> Any:
        """bias_HLM of the queries from `start` on; 0 without ALiBi and relative positions."""
        tables = positions.up_to(keys)
        if tables.bias is None:
            return np.float32(0)
        offset_LM = np.arange(keys)[None, :] - np.arange(start, keys)[:, None]
        return tables.bias[:, offset_LM + tables.length - 1]

    def rotate(self, positions: PositionTable, x_RHLK: Array, start: int) -> Array:
        """Rotary positions, of the pairs (k, k + K/2)."""
        if self.config.position != "rotary":
            return x_RHLK
        length = start + x_RHLK.shape[2]
        table_LK = positions.up_to(length).rows
        assert table_LK is not None
        cos, sin = np.split(table_LK[start:length], 2, axis=1)
        first, second = np.split(x_RHLK, 2, axis=3)
        return np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=3)

    def merge(self, name: str, scores_RHLM: Array, v_RHMK: Array) -> Array:
        """The heads' weighted values, joined and projected."""
        out_RHLK = np.exp(log_softmax(scores_RHLM)) @ v_RHMK
        R, H, L, K = out_RHLK.shape
        return self.linear(name, out_RHLK.transpose(0, 2, 1, 3).reshape(R, L, H * K))


def log_softmax(x: Array) -> Array:
    below = x - x.max(axis=-1, keepdims=True)
    log_probs: Array = below - np.log(np.exp(below).sum(axis=-1, keepdims=True))
    return log_probs


def gelu(x: Array) -> Array:
    half: Array = np.float32(0.5) * x
    error: Array = erf(x * np.float32(math.sqrt(0.5))).astype(np.float32)
    return half + half * error


def gelu_tanh(x: Array) -> Array:
    inner = np.float32(math.sqrt(2 / math.pi)) * (x + np.float32(0.044715) * x * x * x)
    activated: Array = np.float32(0.5) * x * (1 + np.tanh(inner))
    return activated


def swish(x: Array) -> Array:
    activated: Array = x / (1 + np.exp(-np.maximum(x, -80)))  # e^80 does not overflow
    return activated


def gated(activation: Sublayer) -> Sublayer:
    def apply(x: Array) -> Array:
        gate, up = np.split(x, 2, axis=-1)
        return activation(gate) * up

    return apply


ACTIVATIONS: dict[str, Sublayer] = {
    "relu": lambda x: np.maximum(x, 0),
    "gelu": gelu,
    "gelu_tanh": gelu_tanh,
    "swish": swish,
    "swiglu": gated(swish),
    "geglu": gated(gelu_tanh),
}
