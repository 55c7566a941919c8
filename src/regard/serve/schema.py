"""The fields of the API's dataclasses, as the OpenAPI document and the TypeScript types need them.

A field's description is the comment on its line: the one place where it is written.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints, is_typeddict

from regard.config.parsing import is_required

COMMENT = re.compile(r"    (\w+): .*?  # (.*)")


@dataclass(frozen=True)
class PartOf:
    """Marks a dictionary with some of the fields of a dataclass, by the name that it has in the API."""

    kind: type[Any]
    name: str


@dataclass(frozen=True)
class ApiField:
    name: str
    type: Any
    required: bool  # in a request; a response always has every field of a dataclass
    default: Any  # dataclasses.MISSING: none
    limits: Mapping[str, Any]  # see config.parsing.setting
    description: str


def api_fields(kind: type[Any]) -> list[ApiField]:
    """The fields of a dataclass or a TypedDict."""
    hints, comments = get_type_hints(kind, include_extras=True), field_comments(kind)
    if is_typeddict(kind):
        required: frozenset[str] = kind.__required_keys__
        return [
            ApiField(name, hint, name in required, dataclasses.MISSING, {}, comments.get(name, ""))
            for name, hint in hints.items()
        ]
    return [
        ApiField(one.name, hints[one.name], is_required(one), one.default, one.metadata, comments.get(one.name, ""))
        for one in dataclasses.fields(kind)
    ]


def field_comments(kind: type[Any]) -> dict[str, str]:
    """The comments on the fields' lines, those of base classes included; none where the source is not installed."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        try:
            lines = inspect.getsource(base).splitlines()
        except (OSError, TypeError):
            continue
        found |= {match[1]: match[2].replace("None", "null") for line in lines if (match := COMMENT.fullmatch(line))}
    return found


def docstring(kind: type[Any]) -> str:
    """A class's own docstring, on one line."""
    text = kind.__doc__ or ""
    generated = text.startswith(f"{kind.__name__}(")  # by dataclasses
    return "" if generated or "__doc__" not in vars(kind) else " ".join(text.split())


def part_of(kind: Any) -> PartOf | None:
    """The mark of an annotated dictionary."""
    marks = kind.__metadata__ if get_origin(kind) is Annotated else ()
    return next((mark for mark in marks if isinstance(mark, PartOf)), None)


def union_members(kind: Any) -> tuple[Any, ...]:
    """The members of `X | Y`; none for anything else."""
    return get_args(kind) if get_origin(kind) in (Union, types.UnionType) else ()


def is_record(kind: Any) -> bool:
    return is_typeddict(kind) or (dataclasses.is_dataclass(kind) and isinstance(kind, type))


def records(kind: Any) -> Iterator[type[Any]]:
    """The dataclasses and TypedDicts in a type, with those in their fields; those that are used first, first."""
    if is_record(kind):
        for one in api_fields(kind):
            yield from records(one.type)
        yield kind
    elif part := part_of(kind):
        yield from records(part.kind)
    else:
        for inner in get_args(kind):
            yield from records(inner)
