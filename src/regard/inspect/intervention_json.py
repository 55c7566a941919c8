"""Interventions from JSON and back: strictly, with a sentence for everything that cannot be taken as it stands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

from regard.config import listed, suggestion
from regard.errors import ConfigError
from regard.inspect.interventions import KINDS, Intervention

MOST = 512  # interventions at once: nobody chooses more by hand


def parse_interventions(trees: Any) -> tuple[Intervention, ...]:
    """A list from JSON, strictly: each error names the place in the list."""
    if not isinstance(trees, Sequence) or isinstance(trees, str):
        raise ConfigError(f"interventions must be a list, not {trees!r}")
    if len(trees) > MOST:
        raise ConfigError(f"{len(trees)} interventions are too many; the most is {MOST}")
    return tuple(parse_intervention(tree, f"interventions[{i}]") for i, tree in enumerate(trees))


def parse_intervention(tree: Any, name: str) -> Intervention:
    by_kind: dict[str, type[Intervention]] = {kind.kind: kind for kind in KINDS}
    if not isinstance(tree, Mapping):
        raise ConfigError(f"{name} must be an object with a kind, not {tree!r}")
    wanted = by_kind.get(str(tree.get("kind")))
    if wanted is None:
        raise ConfigError(f"{name}.kind = {tree.get('kind')!r} is not possible; it may be one of {listed(by_kind)}")
    types = {field.name: str(field.type) for field in fields(wanted) if field.name != "kind"}
    for key in tree:
        if key != "kind" and key not in types:
            raise ConfigError(f"unknown key {name}.{key}; {suggestion(str(key), [*types, 'kind'])}")
    missing = [field for field in types if field not in tree]
    if missing:
        raise ConfigError(f"{name}: an intervention of kind {wanted.kind!r} needs {listed(missing)} too")
    made: Intervention = wanted(**{key: check_value(kind, tree[key], f"{name}.{key}") for key, kind in types.items()})
    return made


def check_value(kind: str, value: Any, name: str) -> Any:
    """A value of the type that an annotation names."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if kind == "str":
        if not isinstance(value, str):
            raise ConfigError(f"{name} = {value!r} is not possible; it must be a text such as 'decoder.0.cross'")
    elif kind == "int":
        if not number or not isinstance(value, int) or value < 0:
            raise ConfigError(f"{name} = {value!r} is not possible; it must be a whole number from 0")
    elif not number or not 0 <= value <= 1:
        raise ConfigError(f"{name} = {value!r} is not possible; it must be a number from 0 to 1")
    return value


def to_json(interventions: Sequence[Intervention]) -> list[dict[str, Any]]:
    return [asdict(one) for one in interventions]
