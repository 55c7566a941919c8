"""The weights of a model as the engine takes them: which, in which order, of which shapes; wherever they are stored.

A weight is a float32 array; the upper halves of float32 numbers (bf16) as uint16; or int8 with a scale per row beside
it, `<name>.int8_scale`, as in a model folder (model_folder/weights.py).

Shapes: D model, F feed-forward, I inner (all heads), H heads, V vocabulary, P positions.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from regard.config import TransformerConfig
from regard.errors import ConfigError, ModelFolderError
from regard.kernels.bindings import StoredTensor, array_address
from regard.model_folder.folder import CONFIG, WEIGHTS
from regard.model_folder.weights import SCALE

GATED = ("swiglu", "geglu")
RELATIVE_BUCKETS = 32  # of position = "relative"
TYPES: dict[type[np.generic], int] = {np.float32: 0, np.uint16: 1, np.int8: 2}  # as in StoredTensor of engine_model.h

Weights = Mapping[str, npt.NDArray[Any]]
Arrays = tuple[npt.NDArray[Any], npt.NDArray[Any] | None]


class Weight(NamedTuple):
    name: str
    shape: tuple[int, ...]


def list_weights(c: TransformerConfig) -> Iterator[Weight]:
    """The weights in the order in which engine_model.h reads them."""
    source = "tgt_embedding.weight" if c.tie_embeddings == "all" else "src_embedding.weight"
    output = "output.weight" if c.tie_embeddings == "none" else "tgt_embedding.weight"
    yield Weight(source, (c.src_vocab_size, c.d_model))
    yield Weight("tgt_embedding.weight", (c.tgt_vocab_size, c.d_model))
    for i in range(c.n_encoder_layers):
        yield from list_layer(c, f"encoder.{i}", ("attention",))
    for i in range(c.n_decoder_layers):
        yield from list_layer(c, f"decoder.{i}", ("attention", "cross"))
    if c.norm_order == "pre":
        yield from list_norm(c, "encoder_norm")
        yield from list_norm(c, "decoder_norm")
    yield Weight(output, (c.tgt_vocab_size, c.d_model))
    if c.output_bias:
        yield Weight("output_bias", (c.tgt_vocab_size,))


def list_layer(c: TransformerConfig, layer: str, attentions: tuple[str, ...]) -> Iterator[Weight]:
    for name in attentions:
        yield from list_linear(f"{layer}.{name}.qkv", 3 * c.d_model, c.d_model)
        yield from list_linear(f"{layer}.{name}.out", c.d_model, c.d_model)
        yield from list_norm(c, f"{layer}.around_{name}.norm")
    yield from list_linear(f"{layer}.ffn.up", c.d_ff * (2 if c.ffn in GATED else 1), c.d_model)
    yield from list_linear(f"{layer}.ffn.down", c.d_model, c.d_ff)
    yield from list_norm(c, f"{layer}.around_ffn.norm")


def list_linear(name: str, rows: int, columns: int) -> Iterator[Weight]:
    yield Weight(f"{name}.weight", (rows, columns))
    yield Weight(f"{name}.bias", (rows,))


def list_norm(c: TransformerConfig, name: str) -> Iterator[Weight]:
    yield Weight(f"{name}.weight", (c.d_model,))
    if c.norm == "layernorm":
        yield Weight(f"{name}.bias", (c.d_model,))


def list_positions(c: TransformerConfig) -> Iterator[Weight]:
    """The weights of positions, of which the engine gets tables (engine_positions.py)."""
    for side in ("src", "tgt"):
        if c.position == "learned":
            yield Weight(f"{side}_positions.table_LD", (c.max_positions, c.d_model))
        elif c.position == "relative":
            yield Weight(f"{side}_positions.table", (RELATIVE_BUCKETS, c.n_heads))


def check_weights(c: TransformerConfig, weights: Weights, folder: Path) -> None:
    """Raise unless these are the weights of this model, all of them and no others."""
    expected = dict([*list_weights(c), *list_positions(c)])
    found = {name: array.shape for name, array in weights.items() if not name.endswith(SCALE)}
    wrong = sorted(name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name))
    if wrong:
        name = wrong[0]
        raise ModelFolderError(
            f"{folder}: the weights do not fit the sizes in {CONFIG}: {name[:80]} is {found.get(name, 'missing')} in "
            f"{WEIGHTS}, but {CONFIG} implies {expected.get(name, 'none')} ({len(wrong)} mismatches)"
        )


def stored_tensors(c: TransformerConfig, weights: Weights) -> tuple[ctypes.Array[StoredTensor], list[Arrays]]:
    """The list for the engine, and the arrays that each entry points to."""
    held: list[Arrays] = []
    listed = []
    for name, _ in list_weights(c):
        array = np.ascontiguousarray(weights[name])
        scales = np.ascontiguousarray(weights[name + SCALE]) if array.dtype == np.int8 else None
        held.append((array, scales))
        kind = next((kind for kind in TYPES if array.dtype == kind), None)
        if kind is None:
            raise ConfigError(f"the engine takes weights in float32, bf16 and int8, and {name} is in {array.dtype}")
        rows, columns = (array.size // array.shape[-1], array.shape[-1]) if array.ndim > 1 else (1, array.size)
        scale_address = None if scales is None else array_address(scales, np.float32)
        listed.append(StoredTensor(array_address(array, kind), scale_address, TYPES[kind], rows, columns))
    return (StoredTensor * len(listed))(*listed), held


def as_float32(name: str, weights: Weights) -> npt.NDArray[np.float32]:
    """A weight as float32, whatever it is stored in."""
    array = weights[name]
    if array.dtype == np.int8:
        return np.multiply(array, weights[name + SCALE][..., None], dtype=np.float32)
    if array.dtype == np.uint16:
        return (array.astype(np.uint32) << 16).view(np.float32)
    return np.ascontiguousarray(array, np.float32)
