"""Dataclasses from plain values, strictly: what a recipe, a command line or a model folder may say.

An unknown key is an error that suggests the nearest right one; a wrong value is an error that names the key, the
value and what it may be.
"""

from __future__ import annotations

import dataclasses
import difflib
import logging
import math
import types
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from regard.errors import ConfigError

log = logging.getLogger("regard.config")


def setting(
    default: Any,
    low: float | None = None,
    high: float | None = None,
    below: float | None = None,
    formerly: str | None = None,
) -> Any:
    """A dataclass field with the range of values it may take; `formerly` is a name by which it is still read."""
    return field(default=default, metadata={"low": low, "high": high, "below": below, "formerly": formerly})


def to_dict(config: Any) -> dict[str, Any]:
    """Nested dictionaries of plain values: what is written to JSON."""
    return dataclasses.asdict(config)


T = TypeVar("T")


def build(kind: type[T], tree: Any, where: str) -> T:
    """A dataclass from a dictionary, with every key known and every value of the right kind."""
    if not isinstance(tree, Mapping):
        raise ConfigError(f"{where or 'the recipe'} must be a table of settings, not {tree!r}")
    hints = get_type_hints(kind)
    fields = {f.name: f for f in dataclasses.fields(kind)}  # type: ignore[arg-type]
    values: dict[str, Any] = {}
    for key, value in with_current_names(tree, fields.values(), where).items():
        name = f"{where}.{key}" if where else key
        if key not in fields:
            raise ConfigError(f"unknown key {name}; {suggestion(key, fields)}")
        values[key] = convert(hints[key], value, name)
        check_range(name, values[key], fields[key].metadata)
    return kind(**values)


def with_current_names(tree: Mapping[str, Any], fields: Iterable[dataclasses.Field[Any]], where: str) -> dict[str, Any]:
    """The settings with every former key replaced by its present name; a log message says so."""
    current = {f.metadata["formerly"]: f.name for f in fields if f.metadata.get("formerly")}
    dot = f"{where}." if where else ""
    renamed: dict[str, Any] = {}
    for key, value in tree.items():
        name = current.get(key, key)
        if name in renamed or (name != key and name in tree):
            raise ConfigError(f"{dot}{key} is the former name of {dot}{name}, and both are set: remove {dot}{key}")
        if name != key:
            log.warning("%s%s is now called %s%s: please rename it", dot, key, dot, name)
        renamed[name] = value
    return renamed


def convert(kind: Any, value: Any, name: str) -> Any:
    """`value` as the type that the setting has, or an error that says what it may be."""
    origin = get_origin(kind)
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return build(kind, value, name)
    if origin is Literal:
        if value not in get_args(kind):
            raise ConfigError(f"{name} = {value!r} is not possible; it may be one of {listed(get_args(kind))}")
        return value
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise ConfigError(f"{name} must be a list, not {value!r}")
        inner = get_args(kind)[0]
        return tuple(convert(inner, item, f"{name}[{i}]") for i, item in enumerate(value))
    if origin in (Union, types.UnionType):
        return build_tagged(get_args(kind), value, name)
    right = isinstance(value, kind) and not (isinstance(value, bool) and kind is not bool)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not right:
        what = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}[kind]
        raise ConfigError(f"{name} = {value!r} is not possible; it must be {what}")
    return value


def build_tagged(kinds: tuple[Any, ...], tree: Any, where: str) -> Any:
    """One of several dataclasses, told apart by a tag, `family` or `kind`; without it, the first."""
    if not isinstance(tree, Mapping):
        raise ConfigError(f"{where} must be a table of settings, not {tree!r}")
    tag = "family" if hasattr(kinds[0], "family") else "kind"
    by_tag = {getattr(kind, tag): kind for kind in kinds}
    chosen = tree.get(tag, getattr(kinds[0], tag))
    if chosen not in list(by_tag):
        raise ConfigError(f"{where}.{tag} = {chosen!r} is not possible; it may be one of {listed(by_tag)}")
    own = accepted_keys(by_tag[chosen])
    for key in tree:
        others = [name for name, kind in by_tag.items() if key in accepted_keys(kind)]
        if key not in own and others:
            raise ConfigError(
                f"{where}.{key} is a setting of the {tag} {listed(others)}, but {where}.{tag} is {chosen!r}: "
                f"remove the setting, or change {where}.{tag}"
            )
    return build(by_tag[chosen], tree, where)


def accepted_keys(kind: Any) -> set[str]:
    """The names of a dataclass's fields, present and former."""
    fields = dataclasses.fields(kind)
    return {f.name for f in fields} | {f.metadata["formerly"] for f in fields if f.metadata.get("formerly")}


def check_range(name: str, value: Any, limits: Mapping[str, Any]) -> None:
    low, high, below = limits.get("low"), limits.get("high"), limits.get("below")
    if not isinstance(value, int | float) or isinstance(value, bool):
        return
    if not math.isfinite(value):
        raise ConfigError(f"{name} = {value!r} must be finite")
    if low is not None and value < low:
        raise ConfigError(f"{name} = {value!r} is too small; the least is {low}")
    if high is not None and value > high:
        raise ConfigError(f"{name} = {value!r} is too large; the most is {high}")
    if below is not None and value >= below:
        raise ConfigError(f"{name} = {value!r} is too large; it must be below {below}")


def suggestion(wrong: str, right: Any) -> str:
    near = difflib.get_close_matches(wrong, list(right), n=1, cutoff=0.5)
    return f"did you mean {near[0]!r}?" if near else f"it may be one of {listed(sorted(right))}"


def listed(names: Any) -> str:
    return ", ".join(repr(name) for name in names)


def divisors(number: int) -> list[int]:
    return [n for n in range(1, number + 1) if number % n == 0][:24]
