"""Interventions: changes to a model for one request, such as a disabled head, a skipped layer or unscaled scores.

Small values; `patching.intervened` applies them to a model. In JSON:

    {"kind": "head", "where": "decoder.1.cross", "head": 2}   the head's weights are zero
    {"kind": "attention", "where": "decoder.1.cross"}         the sublayer adds nothing
    {"kind": "ffn", "where": "encoder.0"}                     the feed-forward network adds nothing
    {"kind": "residual", "where": "encoder.0"}                no skip connections in the layer
    {"kind": "layer", "where": "encoder.2"}                   the layer passes its input on unchanged
    {"kind": "scale"}                                         no division by √d_k, anywhere
    {"kind": "positions"}                                     no position information
    {"kind": "mask"}                                          the decoder attends to future tokens
    {"kind": "weight", "where": "decoder.1.cross", "head": 0, "row": 3, "column": 1, "value": 0.9}
                                                              the rest of the row is scaled to sum to 1 − value

`mask` alone has no effect on a search, which has no future tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from regard.config import convert
from regard.config.parsing import setting
from regard.errors import ConfigError


@dataclass(frozen=True)
class HeadOff:
    where: str
    head: int = setting(low=0)
    kind: Literal["head"] = setting("head", stated=True)


@dataclass(frozen=True)
class AttentionOff:
    where: str
    kind: Literal["attention"] = setting("attention", stated=True)


@dataclass(frozen=True)
class FeedForwardOff:
    where: str
    kind: Literal["ffn"] = setting("ffn", stated=True)


@dataclass(frozen=True)
class ResidualOff:
    where: str
    kind: Literal["residual"] = setting("residual", stated=True)


@dataclass(frozen=True)
class LayerOff:
    where: str
    kind: Literal["layer"] = setting("layer", stated=True)


@dataclass(frozen=True)
class ScaleOff:
    kind: Literal["scale"] = setting("scale", stated=True)


@dataclass(frozen=True)
class PositionsOff:
    kind: Literal["positions"] = setting("positions", stated=True)


@dataclass(frozen=True)
class MaskOff:
    kind: Literal["mask"] = setting("mask", stated=True)


@dataclass(frozen=True)
class WeightSet:
    where: str
    head: int = setting(low=0)
    row: int = setting(low=0)  # the query: a position of the target, or in the encoder of the source
    column: int = setting(low=0)  # the key
    value: float = setting(low=0.0, high=1.0)
    kind: Literal["weight"] = setting("weight", stated=True)


Intervention = (
    ScaleOff | PositionsOff | MaskOff | HeadOff | WeightSet | AttentionOff | FeedForwardOff | ResidualOff | LayerOff
)
# Also the order in which they are applied: a weight can be set in a head that is switched off.
KINDS: tuple[type[Intervention], ...] = (
    *(ScaleOff, PositionsOff, MaskOff, HeadOff, WeightSet),
    *(AttentionOff, FeedForwardOff, ResidualOff, LayerOff),
)


def parse_interventions(trees: Any) -> tuple[Intervention, ...]:
    """Interventions from JSON; an error names the path of the key."""
    found: tuple[Intervention, ...] = convert(tuple[Intervention, ...], trees, "interventions")
    return found


def without_mask(interventions: Sequence[Intervention]) -> tuple[Intervention, ...]:
    """Those that affect a search."""
    return tuple(one for one in interventions if not isinstance(one, MaskOff))


def check_search(interventions: Sequence[Intervention]) -> None:
    if any(isinstance(one, MaskOff) for one in interventions):
        raise ConfigError(
            "the intervention 'mask' has no effect on a search, which generates one token after the other and has no "
            "future tokens: use it in a trace"
        )


def check_cells(interventions: Sequence[Intervention], n_src: int, n_tgt: int | None = None) -> None:
    """Refuse a weight outside the attention map. Lengths include the end token; None: not known yet."""
    unmasked = any(isinstance(one, MaskOff) for one in interventions)
    for one in interventions:
        if not isinstance(one, WeightSet):
            continue
        decoder = not one.where.startswith("encoder")
        own = decoder and not one.where.endswith("cross")
        for name, place, length in (
            ("row", one.row, n_tgt if decoder else n_src),
            ("column", one.column, n_tgt if own else n_src),
        ):
            if length is not None and place >= length:
                raise ConfigError(
                    f"there is no {name} {place} in {one.where}: it has {length}, numbered from 0 to {length - 1}"
                )
        if own and one.column > one.row and not unmasked:
            raise ConfigError(
                f"row {one.row} of {one.where} cannot attend to column {one.column}: the causal mask hides future "
                "tokens; add the intervention 'mask', or choose a column up to the row"
            )
