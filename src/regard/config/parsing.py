"""The one strict reader of dataclasses: recipes, `--set`, model folders, requests to the server, interventions.

An unknown key is an error that suggests the nearest right one; a missing key or a wrong value is an error that names
its path (`train.lr`, `interventions[2].head`), the value and what it may be.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
import math
import re
import types
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, field
from itertools import islice
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from regard.errors import ConfigError

log = logging.getLogger("regard.config")
LARGEST_INTEGER = (1 << 64) - 1  # of any setting; larger ones cannot even be compared with a float

LARGEST_DIVISOR = 10_000  # that an error message looks for


def setting(
    default: Any = MISSING,
    low: float | None = None,
    high: float | None = None,
    below: float | None = None,
    max_length: int | None = None,
    stated: bool = False,
    formerly: str | None = None,
) -> Any:
    """A dataclass field with the values it may take; without a default, it is required.

    `max_length` limits texts and lists. `stated`: what is read must contain the key, although Python code need not
    pass it. `formerly` is a name by which the setting is still read.
    """
    limits = {"low": low, "high": high, "below": below, "max_length": max_length}
    return field(default=default, metadata={**limits, "stated": stated, "formerly": formerly})


def is_required(one: dataclasses.Field[Any]) -> bool:
    """Whether what is read must contain the field."""
    without_default = one.default is MISSING and one.default_factory is MISSING
    return without_default or bool(one.metadata.get("stated"))


def to_dict(config: Any) -> dict[str, Any]:
    """Nested dictionaries of plain values: what is written to JSON."""
    return dataclasses.asdict(config)


T = TypeVar("T")


def build(kind: type[T], tree: Any, where: str) -> T:
    """A dataclass from a dictionary, with every key known and every value of the right kind."""
    check_table(tree, where or "the recipe")
    hints = get_type_hints(kind)
    fields = {f.name: f for f in dataclasses.fields(kind)}  # type: ignore[arg-type]
    values: dict[str, Any] = {}
    for key, value in with_current_names(tree, fields.values(), where).items():
        name = f"{where}.{key}" if where else key
        if key not in fields:
            raise ConfigError(f"unknown key {shortened(name)}; {suggestion(str(key), fields)}")
        check_length(name, value, fields[key].metadata)
        values[key] = convert(hints[key], value, name)
        check_range(name, values[key], fields[key].metadata)
    missing = [one.name for one in fields.values() if is_required(one) and one.name not in values]
    if missing:
        name = f"{where}.{missing[0]}" if where else missing[0]
        raise ConfigError(f"{name} is missing; the keys are {listed(fields)}")
    return kind(**values)


def check_table(tree: Any, name: str) -> None:
    if not isinstance(tree, Mapping):
        raise ConfigError(f"{name} must be a table of settings (in JSON, an object), not {shown(tree)}")


def with_current_names(tree: Mapping[str, Any], fields: Iterable[dataclasses.Field[Any]], where: str) -> dict[str, Any]:
    """The settings with every former key replaced by its present name; a log message says so, once per key."""
    current = {f.metadata["formerly"]: f.name for f in fields if f.metadata.get("formerly")}
    dot = f"{where}." if where else ""
    renamed: dict[str, Any] = {}
    for key, value in tree.items():
        name = current.get(key, key)
        if name in renamed or (name != key and name in tree):
            raise ConfigError(f"{dot}{key} is the former name of {dot}{name}, and both are set: remove {dot}{key}")
        if name != key:
            report_former_name(re.sub(r"\[\d+\]", "", dot), key, name)
        renamed[name] = value
    return renamed


@functools.cache  # a run folder has many checkpoints, each with the same former keys
def report_former_name(section: str, former: str, name: str) -> None:
    log.warning("%s%s is now called %s%s: please rename it", section, former, section, name)


def rename_former_keys(kind: Any, tree: Any, where: str) -> Any:
    """`tree`, which describes a `kind`, with present names at every level. Unknown keys and wrong values stay."""
    kinds = [one for one in (get_args(kind) if is_union(kind) else (kind,)) if dataclasses.is_dataclass(one)]
    if get_origin(kind) is tuple and isinstance(tree, list | tuple):
        return [rename_former_keys(get_args(kind)[0], item, f"{where}[{i}]") for i, item in enumerate(tree)]
    if not kinds or not isinstance(tree, Mapping):
        return tree
    hints = {name: hint for one in reversed(kinds) for name, hint in get_type_hints(one).items()}
    fields = [field for one in kinds for field in dataclasses.fields(one)]
    named = with_current_names(tree, fields, where)
    dot = f"{where}." if where else ""
    return {key: rename_former_keys(hints.get(key), value, f"{dot}{key}") for key, value in named.items()}


def is_union(kind: Any) -> bool:
    return get_origin(kind) in (Union, types.UnionType)


def convert(kind: Any, value: Any, name: str) -> Any:
    """`value` as the type that the setting has, or an error that says what it may be."""
    origin = get_origin(kind)
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return build(kind, value, name)
    if origin is Literal:
        if value not in get_args(kind):
            raise ConfigError(f"{name} = {shown(value)} is not possible; it may be one of {listed(get_args(kind))}")
        return value
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise ConfigError(f"{name} must be a list, not {shown(value)}")
        inner = get_args(kind)[0]
        return tuple(convert(inner, item, f"{name}[{i}]") for i, item in enumerate(value))
    if origin is dict:
        check_table(value, name)
        return dict(value)
    if is_union(kind):
        kinds = tuple(one for one in get_args(kind) if one is not types.NoneType)
        if value is None and len(kinds) < len(get_args(kind)):
            return None
        return convert(kinds[0], value, name) if len(kinds) == 1 else build_tagged(kinds, value, name)
    return convert_plain(kind, value, name)


def convert_plain(kind: type, value: Any, name: str) -> Any:
    """A number, a text, or true or false."""
    is_bool = isinstance(value, bool)
    if kind is float and isinstance(value, int) and not is_bool:
        try:
            return float(value)
        except OverflowError:
            raise ConfigError(f"{name} = {shown(value)} is too large") from None
    if not isinstance(value, kind) or (is_bool and kind is not bool):
        what = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}[kind]
        raise ConfigError(f"{name} = {shown(value)} is not possible; it must be {what}")
    if kind is int and isinstance(value, int) and abs(value) > LARGEST_INTEGER:
        raise ConfigError(f"{name} = {shown(value)} is too large; the most is {LARGEST_INTEGER}")
    return value


def build_tagged(kinds: tuple[Any, ...], tree: Any, where: str) -> Any:
    """One of several dataclasses, distinguished by a tag, `family` or `kind`; without it, the first.

    Where the tag must be stated (`setting(…, stated=True)`), its absence is an error.
    """
    check_table(tree, where)
    tag = "family" if hasattr(kinds[0], "family") else "kind"
    by_tag = {getattr(kind, tag): kind for kind in kinds}
    if tag not in tree and any(one.name == tag and is_required(one) for one in dataclasses.fields(kinds[0])):
        raise ConfigError(f"{where}.{tag} is missing; it may be one of {listed(by_tag)}")
    chosen = tree.get(tag, getattr(kinds[0], tag))
    if chosen not in list(by_tag):
        raise ConfigError(f"{where}.{tag} = {shown(chosen)} is not possible; it may be one of {listed(by_tag)}")
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
        raise ConfigError(f"{name} = {shown(value)} must be finite")
    if low is not None and value < low:
        raise ConfigError(f"{name} = {shown(value)} is too small; the least is {low}")
    if high is not None and value > high:
        raise ConfigError(f"{name} = {shown(value)} is too large; the most is {high}")
    if below is not None and value >= below:
        raise ConfigError(f"{name} = {shown(value)} is too large; it must be below {below}")


def check_length(name: str, value: Any, limits: Mapping[str, Any]) -> None:
    most = limits.get("max_length")
    if most is not None and isinstance(value, str | list | tuple) and len(value) > most:
        what = "characters" if isinstance(value, str) else "items"
        raise ConfigError(f"{name} has {len(value):,} {what}; the most is {most:,}")


def suggestion(wrong: str, right: Any) -> str:
    if not right:
        return "no keys are accepted here"
    import difflib

    near = difflib.get_close_matches(wrong, list(right), n=1, cutoff=0.5)
    return f"did you mean {near[0]!r}?" if near else f"it may be one of {listed(sorted(right))}"


def shown(value: Any) -> str:
    """A value in an error message."""
    return shortened(repr(value))


def shortened(text: str, most: int = 80) -> str:
    return text if len(text) <= most else text[:most] + "…"


def listed(names: Any) -> str:
    return ", ".join(repr(name) for name in names)


def divisors(number: int) -> list[int]:
    return list(islice((n for n in range(1, min(number, LARGEST_DIVISOR) + 1) if number % n == 0), 24))
