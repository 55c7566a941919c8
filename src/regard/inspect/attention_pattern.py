"""Which keys the queries of an attention see, as a map of a text of any length: a property of the model, not of a text.

Long texts are reduced to cells; a cell has the share of its pairs that are seen. Full, window, sparse and block
attention are given by their settings. Learned spans are those of the weights, if there are any. The buckets of LSH
attention depend on the text: those of the map are of random keys.

Shapes: L tokens, C cells.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import assert_never

import numpy as np
import torch
from torch import Tensor

from regard.config import (
    AdaptiveSpanConfig,
    AttentionConfig,
    AttentionRole,
    BertConfig,
    BlockAttentionConfig,
    BlockwiseAttentionConfig,
    DeepSeekConfig,
    FamilyConfig,
    FullAttention,
    GptConfig,
    LatentAttentionConfig,
    LinformerConfig,
    LshAttentionConfig,
    RecurrentConfig,
    RingAttentionConfig,
    SparseAttentionConfig,
    T5Config,
    TransformerConfig,
    ViTConfig,
    WindowAttentionConfig,
)
from regard.core.attention.adaptive_span import AdaptiveSpanAttention, Past
from regard.core.attention.buckets import Layout, ranks_of
from regard.core.attention.build import build_attention
from regard.core.attention.lsh import LshAttention, normalised, seen_pairs
from regard.core.attention.patterned import PatternedAttention
from regard.core.attention.patterns import Everything, Pattern
from regard.core.attention.patterns import seen as seen_pairs_of
from regard.errors import ConfigError

CELLS = 128
LONGEST = 131_072
ROWS_AT_ONCE = 2**24  # pairs


@dataclass(frozen=True)
class AttentionPattern:
    """The map of one head, and what is to be marked in it. Positions are counted in tokens."""

    title: str
    length: int
    share_CC: np.ndarray  # of the pairs of each cell, 0 to 1; rows are queries
    seen: float  # of all pairs
    blocks: tuple[int, ...] = ()  # where blocks of queries and keys begin
    key_of_block: tuple[int, ...] = ()  # of block attention: the block of keys that each block of queries sees
    n_global_tokens: int = 0
    span: float | None = None  # of a learned span, without its ramp
    bucket_L: tuple[int, ...] = ()  # of LSH attention, first round


@dataclass(frozen=True)
class Place:
    """One attention of a model."""

    config: AttentionConfig
    role: AttentionRole
    name: str  # of the module of the layer: "layers.{}.attention"
    n_layers: int
    n_heads: int
    head_size: int


def find_place(model: FamilyConfig, role: AttentionRole | None = None) -> Place:
    """The attention of a model in a role; None: its only one, or the encoder's."""
    places = {place.role: place for place in all_places(model)}
    chosen = role or next(iter(places))
    if chosen not in places:
        raise ConfigError(f"a model of the family {model.family} has no {chosen} attention, only {', '.join(places)}")
    return places[chosen]


def all_places(model: FamilyConfig) -> list[Place]:
    match model:
        case RecurrentConfig():
            raise ConfigError(
                "a recurrent model has no self-attention: its decoder sees all of the source at every step"
            )
        case TransformerConfig():
            kinds = (model.attention, model.decoder_attention, model.cross_attention)
            return translation_places(model, kinds, model.d_model // model.n_heads)
        case T5Config():
            return translation_places(model, (model.attention,) * 3, model.head_size)
        case GptConfig() | DeepSeekConfig() | BertConfig() | ViTConfig():
            role: AttentionRole = "decoder" if isinstance(model, GptConfig | DeepSeekConfig) else "encoder"
            kind = FullAttention() if isinstance(model, DeepSeekConfig) else model.attention
            size = model.d_model // model.n_heads
            return [Place(kind, role, "layers.{}.attention", model.n_layers, model.n_heads, size)]
        case _:
            assert_never(model)


def translation_places(
    model: TransformerConfig | T5Config, kinds: Sequence[AttentionConfig], head_size: int
) -> list[Place]:
    n_layers = (model.n_encoder_layers, model.n_decoder_layers, model.n_decoder_layers)
    roles: tuple[AttentionRole, ...] = ("encoder", "decoder", "cross")
    names = ("encoder.{}.attention", "decoder.{}.attention", "decoder.{}.cross")
    return [
        Place(kind, role, name, n, model.n_heads, head_size)
        for kind, role, name, n in zip(kinds, roles, names, n_layers, strict=True)
    ]


def attention_pattern(
    place: Place,
    length: int,
    layer: int = 0,
    head: int = 0,
    cells: int = CELLS,
    spans_H: np.ndarray | None = None,
) -> AttentionPattern:
    """The map of a head. `spans_H`: the weight of adaptive spans, `span_H`; without it they are as at the beginning."""
    for name, chosen, count in (("layer", layer, place.n_layers), ("head", head, place.n_heads)):
        if not 0 <= chosen < count:
            raise ConfigError(f"there is no {name} {chosen}: the {place.role} has {count}, numbered from 0")
    if not 1 <= length <= LONGEST:
        raise ConfigError(f"a pattern is drawn for 1 to {LONGEST:,} tokens, not {length:,}")
    c, causal = place.config, place.role == "decoder"
    if isinstance(c, LinformerConfig):
        raise ConfigError(
            f"Linformer has no pattern: every query sees {c.projected_length} mixtures of all tokens, whose weights "
            "are project_k and project_v in the model folder"
        )
    if isinstance(c, BlockAttentionConfig) and length > c.length:
        raise ConfigError(f"{length:,} tokens, but the blocks of this model's attention end at {c.length:,}")
    title = f"{c.kind}, {place.role}, layer {layer}, head {head}, {length:,} tokens"
    if isinstance(c, LshAttentionConfig):
        return hashed_pattern(place, c, length, layer, head, cells, f"{title}, random keys")
    pattern, span = head_pattern(place, layer, head, spans_H)
    key_L = torch.arange(length)
    share_CC, seen = reduced(lambda query_L: seen_pairs_of([pattern], query_L, key_L, causal)[0], length, cells)
    marks = marks_of(c, head, length)
    return AttentionPattern(title, length, share_CC, seen, span=span, **marks)  # type: ignore[arg-type]


def head_pattern(place: Place, layer: int, head: int, spans_H: np.ndarray | None) -> tuple[Pattern, float | None]:
    """The pattern of a head, as the model computes it; and its learned span."""
    made = build_attention(place.config, place.n_heads, place.n_heads, place.role, layer=layer, head_size=1)
    if not isinstance(made, PatternedAttention):
        return Everything(), None
    if isinstance(made, AdaptiveSpanAttention):
        if spans_H is not None:
            made.span_H.data = torch.from_numpy(spans_H.copy())
        span = float(made.spans().detach()[head])
        return Past(min(math.ceil(span + made.ramp), made.max_span)), span  # the layer computes as far as its longest
    return made.head_patterns()[head], None


def marks_of(config: AttentionConfig, head: int, length: int) -> dict[str, object]:
    """The blocks and global tokens."""
    match config:
        case WindowAttentionConfig():
            return {"n_global_tokens": min(config.n_global_tokens, length)}
        case SparseAttentionConfig():
            return {"blocks": starts(length, config.stride)} if "fixed" in config.patterns else {}
        case BlockAttentionConfig():
            size, shift = config.length // config.n_blocks, config.shifts[head % len(config.shifts)]
            blocks = starts(length, size)
            return {"blocks": blocks, "key_of_block": tuple((i + shift) % config.n_blocks for i in range(len(blocks)))}
        case BlockwiseAttentionConfig() | RingAttentionConfig():
            return {"blocks": starts(length, config.block)}
        case (
            FullAttention() | LatentAttentionConfig() | AdaptiveSpanConfig() | LinformerConfig() | LshAttentionConfig()
        ):
            return {}
        case _:
            assert_never(config)


def starts(length: int, size: int) -> tuple[int, ...]:
    return tuple(range(0, length, size))


def reduced(seen_from: Callable[[Tensor], Tensor], length: int, cells: int) -> tuple[np.ndarray, float]:
    """share_CC, and the share of all pairs. `seen_from` maps query positions to what they see, few at a time."""
    edges = cell_edges(length, cells)
    sums_CC = np.zeros((len(edges) - 1,) * 2)
    step = max(ROWS_AT_ONCE // length, 1)
    for row, (first, last) in enumerate(pairwise(edges.tolist())):
        for query_L in torch.split(torch.arange(first, last), step):
            sums_CC[row] += np.add.reduceat(seen_from(query_L).sum(0).numpy(), edges[:-1])
    sizes = np.diff(edges)
    return sums_CC / np.outer(sizes, sizes), float(sums_CC.sum() / length**2)


def cell_edges(length: int, cells: int) -> np.ndarray:
    return np.linspace(0, length, min(length, cells) + 1).astype(np.int64)


def hashed_pattern(
    place: Place, config: LshAttentionConfig, length: int, layer: int, head: int, cells: int, title: str
) -> AttentionPattern:
    """Of random keys: a real text has fewer, larger buckets."""
    made = LshAttention(place.n_heads * place.head_size, place.n_heads, config=config, layer=layer)
    shape = (1, place.n_heads, length, place.head_size)
    k = normalised(torch.randn(shape, generator=torch.Generator().manual_seed(0)))
    bucket_SBHL = made.buckets(k, fixed=True)[:, :, head : head + 1]
    layout = Layout(config.n_buckets, config.chunk, length)
    place_SBHL = layout.places(bucket_SBHL, ranks_of(bucket_SBHL, config.n_buckets))
    key_L = torch.arange(length)

    def seen_from(query_L: Tensor) -> Tensor:
        seen_LL = seen_pairs(place_SBHL[..., query_L], place_SBHL)[0, 0] & (query_L[:, None] != key_L)
        if place.role == "decoder":
            seen_LL &= key_L <= query_L[:, None]
        seen_LL[range(len(query_L)), query_L] = ~seen_LL.any(1)  # itself, if it is alone
        return seen_LL

    share_CC, seen = reduced(seen_from, length, cells)
    return AttentionPattern(title, length, share_CC, seen, bucket_L=tuple(bucket_SBHL[0, 0, 0].tolist()))
