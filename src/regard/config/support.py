"""What a consumer of model settings supports. Whatever it does not list is refused.

The engine, the exports, the explorer and the parameter ledger each handle some models only. Each states, for every
field of every config dataclass that it knows, the values that it supports:

    ENGINE = Support("the engine", {TransformerConfig: {"position": ("sinusoidal", "none"), "d_model": ANY, …}})
    reason = ENGINE.refusal(config)  # None, or a sentence

A field without an entry is refused, so that a field added later is never ignored.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from regard.errors import ConfigError


class AnyValue:
    """Every value of a field."""

    def __contains__(self, value: object) -> bool:
        return True


ANY = AnyValue()


@dataclass(frozen=True)
class MultipleOf:
    """Whole numbers that `number` divides."""

    number: int

    def __contains__(self, value: object) -> bool:
        return isinstance(value, int) and value % self.number == 0

    def __str__(self) -> str:
        return f"multiples of {self.number}"


# Per dataclass, the supported values per field. The value of a field that is a dataclass is checked by one more table.
Table = Mapping[type, Mapping[str, "Container[Any] | Table"]]


def any_value(*names: str) -> dict[str, AnyValue]:
    """Fields of which every value is supported."""
    return dict.fromkeys(names, ANY)


@dataclass(frozen=True)
class Support:
    """The settings that `consumer` supports; its name is used in sentences: "the engine"."""

    consumer: str
    table: Table

    def refusal(self, config: Any) -> str | None:
        """Why the consumer cannot handle the model of `config`, in a sentence; None: it can."""
        return refusal(self.consumer, self.table, config, "model")

    def check(self, config: Any) -> None:
        """Raise a ConfigError for a model that the consumer cannot handle."""
        if reason := self.refusal(config):
            raise ConfigError(reason)


def refusal(consumer: str, table: Table, config: Any, where: str) -> str | None:
    stated = next((table[kind] for kind in type(config).__mro__ if kind in table), None)
    if stated is None:
        tag = tag_of(config)
        known = ", ".join(repr(getattr(kind, tag)) for kind in table)
        return f"{where}.{tag} = {getattr(config, tag)!r} is not supported by {consumer}; it supports {known}"
    for field in dataclasses.fields(config):
        name, value = f"{where}.{field.name}", getattr(config, field.name)
        if field.name not in stated:
            return f"{name} = {value!r} is unknown to {consumer}"
        supported = stated[field.name]
        if isinstance(supported, Mapping):
            if reason := refusal(consumer, supported, value, name):
                return reason
        elif value not in supported:
            return f"{name} = {value!r} is not supported by {consumer}; it supports {described(supported)}"
    return None


def tag_of(config: Any) -> str:
    """The field that tells the dataclasses of a union apart."""
    return "family" if hasattr(config, "family") else "kind"


def described(supported: Container[Any]) -> str:
    return ", ".join(map(repr, supported)) if isinstance(supported, Iterable) else str(supported)
