"""The weights of a model as the engine takes them: which, in which order, of which shapes; wherever they are stored.

A weight is a float32 array; the upper halves of float32 numbers (bf16) as uint16; or int8 with a scale per row beside
it, `<name>.int8_scale`, as in a model folder (model_folder/weights.py).
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from regard.config import BertConfig, FeedForwardKind
from regard.decode.engine_shape import GATED, EngineConfig, Shape, shape_of
from regard.errors import ConfigError, ModelFolderError
from regard.kernels.bindings import StoredTensor, array_address
from regard.model_folder.folder import CONFIG, WEIGHTS
from regard.model_folder.weights import SCALE

TYPES: dict[type[np.generic], int] = {np.float32: 0, np.uint16: 1, np.int8: 2}  # as in StoredTensor of engine_model.h

Weights = Mapping[str, npt.NDArray[Any]]
Arrays = tuple[npt.NDArray[Any], npt.NDArray[Any] | None]


class Weight(NamedTuple):
    name: str
    shape: tuple[int, ...]


def list_weights(s: Shape) -> Iterator[Weight]:
    """The weights in the order in which engine_model.h reads them."""
    stacks = [stack for stack in (s.encoder, s.decoder) if stack is not None]
    for stack in stacks:
        yield Weight(stack.embedding, (stack.vocabulary, s.d_model))
    if s.first_norm is not None:
        yield from list_norm(s, s.first_norm)
    for stack in stacks:
        crosses = stack is s.decoder and s.encoder is not None
        for i in range(stack.n_layers):
            yield from list_layer(s, f"{stack.layer}.{i}", ("attention", "cross") if crosses else ("attention",))
    for stack in stacks:
        if stack.last_norm is not None:
            yield from list_norm(s, stack.last_norm)
    if s.decoder is not None and s.output is not None:
        yield Weight(s.output, (s.decoder.vocabulary, s.d_model))
        if s.output_bias:
            yield Weight("output_bias", (s.decoder.vocabulary,))


def list_layer(s: Shape, layer: str, attentions: tuple[str, ...]) -> Iterator[Weight]:
    for name in attentions:
        yield from list_linear(s, f"{layer}.{name}.qkv", 3 * s.inner, s.d_model)
        yield from list_linear(s, f"{layer}.{name}.out", s.d_model, s.inner)
        yield from list_norm(s, f"{layer}.around_{name}.norm")
    if s.ffn == "moe":
        yield from list_mixture(s, f"{layer}.ffn")
    else:
        yield from list_feed_forward(s, f"{layer}.ffn", s.ffn, s.d_ff)
    yield from list_norm(s, f"{layer}.around_ffn.norm")


def list_feed_forward(s: Shape, name: str, kind: FeedForwardKind, d_ff: int) -> Iterator[Weight]:
    yield from list_linear(s, f"{name}.up", d_ff * (2 if kind in GATED else 1), s.d_model)
    yield from list_linear(s, f"{name}.down", s.d_model, d_ff)


def list_mixture(s: Shape, name: str) -> Iterator[Weight]:
    experts, width = s.moe.n_experts, s.expert_d_ff * (2 if s.moe.kind in GATED else 1)
    yield Weight(f"{name}.gate.weight", (experts, s.d_model))
    if s.corrected:
        yield Weight(f"{name}.gate.correction_E", (experts,))
    for part, rows, columns in (("up", width, s.d_model), ("down", s.d_model, s.expert_d_ff)):
        yield Weight(f"{name}.experts.{part}_weight", (experts, rows, columns))
        if s.linear_bias:
            yield Weight(f"{name}.experts.{part}_bias", (experts, rows))
    if s.moe.n_shared_experts:
        yield from list_feed_forward(s, f"{name}.shared", s.moe.kind, s.moe.n_shared_experts * s.expert_d_ff)


def list_linear(s: Shape, name: str, rows: int, columns: int) -> Iterator[Weight]:
    yield Weight(f"{name}.weight", (rows, columns))
    if s.linear_bias:
        yield Weight(f"{name}.bias", (rows,))


def list_norm(s: Shape, name: str) -> Iterator[Weight]:
    yield Weight(f"{name}.weight", (s.d_model,))
    if s.norm == "layernorm":
        yield Weight(f"{name}.bias", (s.d_model,))


def list_positions(s: Shape) -> Iterator[Weight]:
    """The weights of positions, of which the engine gets tables (engine_positions.py)."""
    for stack in (s.encoder, s.decoder):
        if stack is not None and s.position == "learned":
            yield Weight(f"{stack.positions}.table_LD", (s.max_positions, s.d_model))
        elif stack is not None and s.position == "relative":
            yield Weight(f"{stack.positions}.table", (s.n_buckets, s.n_heads))
    if s.segments is not None:
        yield Weight(s.segments, (s.n_segments, s.d_model))


def list_heads(c: BertConfig) -> Iterator[Weight]:
    """The weights of BERT's heads, which are computed in numpy (bert_heads.py)."""
    linears = {"pooler.map": c.d_model} if c.pooler else {}
    linears |= {"masked_head.map": c.d_model} if "masked" in c.heads else {}
    sizes = {"next": ("next_head", 2), "classes": ("class_head", c.n_labels), "tags": ("tag_head", c.n_labels)}
    linears |= dict(sizes[head] for head in c.heads if head in sizes)
    for name, rows in linears.items():
        yield Weight(f"{name}.weight", (rows, c.d_model))
        yield Weight(f"{name}.bias", (rows,))
    if "masked" in c.heads:
        yield from (Weight(f"masked_head.norm.{part}", (c.d_model,)) for part in ("weight", "bias"))
        yield Weight("masked_head.bias_V", (c.vocab_size,))


def check_weights(config: EngineConfig, weights: Weights, folder: Path) -> None:
    """Raise unless these are the weights of this model, all of them and no others."""
    shape = shape_of(config)
    heads = list_heads(config) if isinstance(config, BertConfig) else ()
    expected = dict([*list_weights(shape), *list_positions(shape), *heads])
    found = {name: array.shape for name, array in weights.items() if not name.endswith(SCALE)}
    wrong = sorted(name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name))
    if wrong:
        name = wrong[0]
        raise ModelFolderError(
            f"{folder}: the weights do not fit the sizes in {CONFIG}: {name[:80]} is {found.get(name, 'missing')} in "
            f"{WEIGHTS}, but {CONFIG} implies {expected.get(name, 'none')} ({len(wrong)} mismatches)"
        )


def stored_tensors(s: Shape, weights: Weights) -> tuple[ctypes.Array[StoredTensor], list[Arrays]]:
    """The list for the engine, and the arrays that each entry points to."""
    held: list[Arrays] = []
    listed = []
    for name, _ in list_weights(s):
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
