"""The settings that a consumer of models supports; it refuses everything else.

The engine, the exports, the explorer and the parameter ledger each handle some models only. Each states the values
that it supports, for every field of every config dataclass that it knows:

    ENGINE = Support("the engine", {TransformerConfig: {"position": ("sinusoidal", "none"), **any_value("d_model", …)}})
    reason = ENGINE.refusal(config)  # None, or a sentence

A field that is not stated is refused, whatever its value: a consumer cannot know what a field added later means.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from regard.config.attention import (
    AdaptiveSpanConfig,
    BlockAttentionConfig,
    BlockwiseAttentionConfig,
    FullAttention,
    LinformerConfig,
    LshAttentionConfig,
    RingAttentionConfig,
    SparseAttentionConfig,
    WindowAttentionConfig,
)
from regard.config.models import MixtureConfig
from regard.config.parsing import listed
from regard.errors import ConfigError


class AnyValue:
    """Every value of a field."""

    def __contains__(self, value: object) -> bool:
        return True


@dataclass(frozen=True)
class MultipleOf:
    """Integers that `number` divides."""

    number: int

    def __contains__(self, value: object) -> bool:
        return isinstance(value, int) and value % self.number == 0

    def __str__(self) -> str:
        return f"multiples of {self.number}"


@dataclass(frozen=True)
class SomeOf:
    """Tuples of any of `values`."""

    values: tuple[Any, ...]

    def __contains__(self, value: object) -> bool:
        return isinstance(value, tuple) and set(value) <= set(self.values)

    def __str__(self) -> str:
        return f"any of {listed(self.values)}"


# Per dataclass, the supported values per field. A field that holds a dataclass has a table of its own.
Table = Mapping[type, Mapping[str, "Container[Any] | Table"]]


def any_value(*names: str) -> dict[str, AnyValue]:
    """Fields of which every value is supported: sizes, and settings that the consumer does not depend on."""
    return dict.fromkeys(names, AnyValue())


FULL_ONLY: Table = {FullAttention: {"kind": ("full",)}}
# Every kind that models with multi-head attention may have, at all of its settings.
ATTENTIONS: Table = {
    **FULL_ONLY,
    BlockwiseAttentionConfig: {"kind": ("blockwise",), **any_value("block")},
    WindowAttentionConfig: {"kind": ("window",), **any_value("window", "dilation", "n_global_tokens")},
    SparseAttentionConfig: {"kind": ("sparse",), **any_value("patterns", "combine", "stride", "summary_columns")},
    BlockAttentionConfig: {"kind": ("block",), **any_value("length", "n_blocks", "shifts")},
    AdaptiveSpanConfig: {"kind": ("adaptive_span",), **any_value("max_span", "initial_span", "ramp", "span_loss")},
    LinformerConfig: {"kind": ("linformer",), **any_value("length", "projected_length", "sharing")},
    LshAttentionConfig: {
        "kind": ("lsh",),
        **any_value("n_buckets", "chunk", "n_rounds", "evaluation_rounds", "hash_seed"),
    },
    RingAttentionConfig: {"kind": ("ring",), **any_value("block", "layout")},
}
FEED_FORWARDS = ("relu", "gelu", "gelu_tanh", "swish", "swiglu", "geglu")
# Every setting of experts; a consumer that does not support ffn = "moe" states them too, as they have no effect there.
MOE: Table = {
    MixtureConfig: {
        "kind": FEED_FORWARDS,
        "gate": ("sigmoid", "softmax"),
        "load_balancing": ("bias", "loss", "none"),
        **any_value("n_experts", "experts_per_token", "n_shared_experts", "d_ff", "n_groups", "groups_per_token"),
        **any_value("normalise_gates", "routed_scaling_factor", "load_balancing_rate"),
    }
}


@dataclass(frozen=True)
class Support:
    """The settings that `consumer` supports; its name is used in sentences: "the engine"."""

    consumer: str
    table: Table

    def __post_init__(self) -> None:
        check_names(self.table)

    def refusal(self, config: Any) -> str | None:
        """Why the consumer cannot handle the model of `config`, in a sentence; None: it can."""
        return find_refusal(self.consumer, self.table, config, "model")

    def check(self, config: Any) -> None:
        """Raise a ConfigError for a model that the consumer cannot handle."""
        if reason := self.refusal(config):
            raise ConfigError(reason)


def find_refusal(consumer: str, table: Table, config: Any, where: str) -> str | None:
    stated = next((table[kind] for kind in type(config).__mro__ if kind in table), None)
    if stated is None:
        tag = "family" if hasattr(config, "family") else "kind"
        supported = listed(getattr(kind, tag) for kind in table)
        return f"{consumer} does not support {where}.{tag} = {getattr(config, tag)!r}; it supports {supported}"
    for field in dataclasses.fields(config):
        name, value = f"{where}.{field.name}", getattr(config, field.name)
        if field.name not in stated:
            return f"{consumer} does not support {name} = {value!r}: it has no support for the field {field.name!r}"
        supported_values = stated[field.name]
        if isinstance(supported_values, Mapping):
            if reason := find_refusal(consumer, supported_values, value, name):
                return reason
        elif value not in supported_values:
            shown = listed(supported_values) if isinstance(supported_values, Iterable) else str(supported_values)
            return f"{consumer} does not support {name} = {value!r}; it supports {shown}"
    return None


def check_names(table: Table) -> None:
    """Raise for a stated name that is not a field, such as one that has been renamed since."""
    for kind, stated in table.items():
        fields = {field.name for field in dataclasses.fields(kind)}
        if unknown := sorted(stated.keys() - fields):
            raise ValueError(f"{kind.__name__} has no field {listed(unknown)}")
        for values in stated.values():
            if isinstance(values, Mapping):
                check_names(values)
