"""Interventions applied to a model, through hooks on its taps.

Within `intervened`, whole passes and the cached steps of a search run with the interventions in effect; afterwards the
model is unchanged.

Shapes: B batch, H heads, L query length, M memory length.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import assert_never

from torch import Tensor, nn

from regard.config import listed
from regard.core.attention.multi_head import MultiHeadAttention
from regard.core.positions import Positions
from regard.core.taps import hook_taps, tap_paths
from regard.errors import ConfigError
from regard.inspect.interventions import (
    KINDS,
    AttentionOff,
    FeedForwardOff,
    HeadOff,
    Intervention,
    LayerOff,
    MaskOff,
    PositionsOff,
    ResidualOff,
    ScaleOff,
    WeightSet,
)


@contextmanager
def intervened(model: nn.Module, interventions: Sequence[Intervention]) -> Iterator[None]:
    """Within the block, the interventions are in effect; a place that the model does not have is a ConfigError."""
    check_places(model, interventions)
    with ExitStack() as stack:
        if interventions:
            # Some interventions hook no tap; a hooked tap tells the translator not to use the engine, which has none.
            stack.enter_context(hook_taps(model, {"logits": lambda path, x: None}))
        if any(isinstance(one, ScaleOff) for one in interventions):
            stack.enter_context(without_scale(model))
        if any(isinstance(one, PositionsOff) for one in interventions):
            stack.enter_context(without_positions(model))
        if any(isinstance(one, MaskOff) for one in interventions):
            stack.enter_context(without_causal_mask(model))
        weights = [one for one in interventions if isinstance(one, WeightSet)]
        for kind in KINDS:
            if kind is WeightSet and weights:
                stack.enter_context(with_weights(model, weights))
            for one in sorted((one for one in interventions if type(one) is kind), key=layer_order):
                stack.enter_context(without(model, one))
        yield


def layer_order(one: Intervention) -> tuple[int, ...]:
    """Of two layers that are skipped, the lower one must be skipped first."""
    return tuple(int(number) for number in re.findall(r"\d+", getattr(one, "where", "")))


def check_places(model: nn.Module, interventions: Sequence[Intervention]) -> None:
    taps = set(tap_paths(model))
    for one in interventions:
        match one:
            case HeadOff() | WeightSet():
                check_where(one.where, taps, "weights", one.kind)
                n_heads = count_heads(model, one.where)
                if one.head >= n_heads:
                    raise ConfigError(
                        f"{one.where} has no head {one.head}: it has {n_heads}, numbered from 0 to {n_heads - 1}"
                    )
            case AttentionOff():
                check_where(one.where, taps, "attn_out", one.kind)
            case FeedForwardOff():
                check_where(one.where, taps, "ffn.ffn_out", one.kind)
            case ResidualOff() | LayerOff():
                check_where(one.where, taps, "around_ffn.resid", one.kind)
            case ScaleOff() | MaskOff():
                if not attentions(model):
                    raise ConfigError(
                        f"this model has no scaled dot-product attention, so {one.kind!r} changes nothing"
                    )
            case PositionsOff():
                if not positions(model):
                    raise ConfigError("this model has no position information to remove")
            case _:
                assert_never(one)


def check_where(where: str, taps: set[str], tap: str, kind: str) -> None:
    if f"{where}.{tap}" not in taps:
        places = sorted(path.removesuffix(f".{tap}") for path in taps if path.endswith(f".{tap}"))
        raise ConfigError(
            f"there is no {where!r} to change with {kind!r}; it may be one of {listed(places) or 'none in this model'}"
        )


def attentions(model: nn.Module) -> dict[str, MultiHeadAttention]:
    return {path: module for path, module in model.named_modules() if isinstance(module, MultiHeadAttention)}


def count_heads(model: nn.Module, where: str) -> int:
    """Of the attention at `where`; that of a recurrent decoder has one."""
    return int(getattr(model.get_submodule(where), "n_heads", 1))


def positions(model: nn.Module) -> list[tuple[nn.Module, str, Positions]]:
    """(module, attribute, positions) of every module with position information."""
    return [
        (module, name, child)
        for module in model.modules()
        for name, child in module.named_children()
        if isinstance(child, Positions) and type(child) is not Positions
    ]


@contextmanager
def without_scale(model: nn.Module) -> Iterator[None]:
    before = {attention: attention.scale for attention in attentions(model).values()}
    try:
        for attention in before:
            attention.scale = 1.0
        yield
    finally:
        for attention, scale in before.items():
            attention.scale = scale


@contextmanager
def without_positions(model: nn.Module) -> Iterator[None]:
    before = positions(model)
    try:
        for module, name, _ in before:
            setattr(module, name, Positions())
        yield
    finally:
        for module, name, scheme in before:
            setattr(module, name, scheme)


@contextmanager
def without_causal_mask(model: nn.Module) -> Iterator[None]:
    """Recompute the weights from the scores, whose tap comes before the mask."""
    scores: dict[str, Tensor] = {}

    def keep(path: str, x_BHLM: Tensor) -> None:
        scores[path.rpartition(".")[0]] = x_BHLM

    def unmask(path: str, _: Tensor) -> Tensor:
        return scores.pop(path.rpartition(".")[0]).softmax(dim=-1)

    with hook_taps(model, {"decoder.*.attention.scores": keep, "decoder.*.attention.weights": unmask}):
        yield


@contextmanager
def without(model: nn.Module, one: Intervention) -> Iterator[None]:
    match one:
        case HeadOff():
            with hook_taps(model, {f"{one.where}.weights": lambda _, x_BHLM: silence_head(x_BHLM, one.head)}):
                yield
        case AttentionOff():
            with hook_taps(model, {f"{one.where}.attn_out": lambda _, x: x.new_zeros(x.shape)}):
                yield
        case FeedForwardOff():
            with hook_taps(model, {f"{one.where}.ffn.ffn_out": lambda _, x: x.new_zeros(x.shape)}):
                yield
        case ResidualOff():
            with without_residual(model, one.where):
                yield
        case LayerOff():
            with without_layer(model, one.where):
                yield
        case ScaleOff() | PositionsOff() | MaskOff() | WeightSet():
            yield  # `intervened` applies these to the whole model
        case _:
            assert_never(one)


def silence_head(weights_BHLM: Tensor, head: int) -> Tensor:
    weights_BHLM = weights_BHLM.clone()
    weights_BHLM[:, head] = 0
    return weights_BHLM


@contextmanager
def without_residual(model: nn.Module, layer: str) -> Iterator[None]:
    """Replace x + sublayer(x) by sublayer(x)."""
    changes: dict[str, Tensor] = {}
    taps = set(tap_paths(model))
    with ExitStack() as stack:
        for sublayer, tap in (("attention", "attn_out"), ("cross", "attn_out"), ("ffn", "ffn_out")):
            if f"{layer}.{sublayer}.{tap}" in taps:

                def keep(_: str, x: Tensor, sublayer: str = sublayer) -> None:
                    changes[sublayer] = x

                def alone(_: str, x: Tensor, sublayer: str = sublayer) -> Tensor:
                    return changes.pop(sublayer)

                hooks = {f"{layer}.{sublayer}.{tap}": keep, f"{layer}.around_{sublayer}.resid": alone}
                stack.enter_context(hook_taps(model, hooks))
        yield


@contextmanager
def without_layer(model: nn.Module, layer: str) -> Iterator[None]:
    """Replace the layer's output by its input. The layer still runs, so that the caches of a search stay complete."""
    side, _, number = layer.partition(".")
    last = f"{layer}.around_ffn"
    tap = "resid" if getattr(model.get_submodule(last), "pre", False) else "normed"
    before = f"{side}.{int(number) - 1}.around_ffn.{tap}"
    if number == "0":
        before = "src_embedded" if side == "encoder" else "tgt_embedded"
    inputs: list[Tensor] = []

    def keep(_: str, x: Tensor) -> None:
        inputs[:] = [x]

    with hook_taps(model, {before: keep}), hook_taps(model, {f"{last}.{tap}": lambda _, x: inputs.pop()}):
        yield


@contextmanager
def with_weights(model: nn.Module, wanted: Sequence[WeightSet]) -> Iterator[None]:
    """Set single weights. A row is a position in the sentence, in a whole pass and in a step of a search alike."""
    rows: dict[tuple[str, int, int], dict[int, float]] = {}
    for one in wanted:
        row = rows.setdefault((one.where, one.head, one.row), {})
        row[one.column] = one.value
        if sum(row.values()) > 1 + 1e-6:
            raise ConfigError(f"the weights set in row {one.row} of {one.where}, head {one.head}, sum to more than 1")
    start = 0  # position of the first query of a pass through the decoder

    def follow(path: str, x: Tensor) -> None:
        """The shape of cross-attention does not tell the step; that of the self-attention before it does."""
        nonlocal start
        start = x.shape[3] - x.shape[2]

    def count(path: str, x: Tensor) -> None:
        """A recurrent decoder runs once per token, from the start for each source."""
        nonlocal start
        start = -1 if path == "memory" else start + 1

    def change(path: str, x_BHLM: Tensor) -> Tensor | None:
        where = path.rpartition(".")[0]
        first = 0 if where.startswith("encoder") else start
        changed = None
        for (place, head, row), columns in rows.items():
            if place == where and first <= row < first + x_BHLM.shape[2]:
                changed = x_BHLM.clone() if changed is None else changed
                set_row(changed[:, head, row - first], columns)
        return changed

    followed = {"decoder.0.attention.weights": follow}
    if not attentions(model):
        followed = {"memory": count, "decoder.0.cross.weights": count}
    changed = {f"{where}.weights": change for where in {one.where for one in wanted}}
    with hook_taps(model, followed), hook_taps(model, changed):
        yield


def set_row(row_BM: Tensor, columns: Mapping[int, float]) -> None:
    """Set these columns in place, and scale the others so that the row sums to 1."""
    there = {column: value for column, value in columns.items() if column < row_BM.shape[1]}
    row_BM[:, list(there)] = 0
    others_B1 = row_BM.sum(dim=1, keepdim=True)
    row_BM *= (1 - sum(there.values())) / others_B1.clamp(min=1e-12)
    for column, value in there.items():
        row_BM[:, column] = value
