"""What may be asked of the server: one frozen dataclass for each body or query, read strictly.

The same dataclasses make the OpenAPI document, so that the two cannot differ.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from regard.config import listed, suggestion
from regard.inspect.explorer import Question
from regard.inspect.intervention_json import parse_interventions
from regard.inspect.interventions import Intervention
from regard.serve.http_error import HttpError

Options = dict[str, Any]  # the settings of decoding, checked by the translator
Interventions = tuple[Intervention, ...]


@dataclass(frozen=True)
class Nothing:
    """No body, no query."""


@dataclass(frozen=True)
class TokensBody:
    text: str
    model: str = "0"
    side: Literal["src", "tgt"] = "src"


@dataclass(frozen=True)
class TranslateBody:
    text: str
    model: str = "0"
    options: Options = field(default_factory=dict)
    n_best: int = 1
    prefix_ids: tuple[int, ...] | None = None  # how the translation must begin
    interventions: Interventions = ()

    def question(self) -> Question:
        return Question(self.text, self.options, self.prefix_ids or (), self.interventions)


@dataclass(frozen=True)
class BeamBody:
    text: str
    model: str = "0"
    options: Options = field(default_factory=dict)
    n_best: int | None = None  # null: as many as the beam
    prefix_ids: tuple[int, ...] | None = None
    interventions: Interventions = ()

    def question(self) -> Question:
        return Question(self.text, self.options, self.prefix_ids or (), self.interventions)


@dataclass(frozen=True)
class TraceBody:
    text: str
    model: str = "0"
    tgt_ids: tuple[int, ...] | None = None  # null: those that a search finds
    options: Options = field(default_factory=dict)
    prefix_ids: tuple[int, ...] | None = None
    interventions: Interventions = ()

    def question(self) -> Question:
        return Question(self.text, self.options, self.prefix_ids or (), self.interventions)


@dataclass(frozen=True)
class SummaryBody:
    trace: str


@dataclass(frozen=True)
class ToyBody:
    task: Literal["reverse", "copy"] = "reverse"
    seconds: int = 60


@dataclass(frozen=True)
class TensorQuery:
    path: str
    head: int | None = None


@dataclass(frozen=True)
class NextQuery:
    step: int
    k: int = 20


@dataclass(frozen=True)
class BlockQuery:
    side: Literal["encoder", "decoder"]
    layer: int
    position: int


@dataclass(frozen=True)
class ParameterQuery:
    name: str
    rows: str | None = None  # "3,17,4": only these, in this order
    columns: str | None = None  # "64-128": only these, the last not among them


@dataclass(frozen=True)
class AfterQuery:
    after: int = -1  # only what came after this step


T = TypeVar("T")


def read_body(kind: type[T], tree: Any) -> T:
    """A dataclass from JSON, with every key known and every value of the right kind."""
    if not isinstance(tree, Mapping):
        raise HttpError(422, f"the request must be a JSON object, not {shortened(tree)}")
    return read(kind, tree, from_text=False)


def read_query(kind: type[T], query: Mapping[str, str]) -> T:
    return read(kind, query, from_text=True)


def read(kind: type[T], tree: Mapping[str, Any], from_text: bool) -> T:
    hints = get_type_hints(kind)
    fields = {one.name: one for one in dataclasses.fields(kind)}  # type: ignore[arg-type]
    for key in tree:
        if key not in fields:
            raise HttpError(422, f"unknown key {key!r}", suggestion(str(key), fields) if fields else "give none")
    for name, one in fields.items():
        required = one.default is dataclasses.MISSING and one.default_factory is dataclasses.MISSING
        if required and name not in tree:
            raise HttpError(422, f"{name!r} is missing", f"this request takes {listed(fields)}")
    return kind(**{name: convert(hints[name], value, name, from_text) for name, value in tree.items()})


def convert(kind: Any, value: Any, name: str, from_text: bool) -> Any:
    """`value` as the type that the field has, or a refusal that says what it may be."""
    if kind == Interventions:
        return parse_interventions(value)
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        inner = next(one for one in get_args(kind) if one is not type(None))
        return None if value is None else convert(inner, value, name, from_text)
    if origin is Literal:
        if value not in get_args(kind):
            raise wrong(name, value, f"one of {listed(get_args(kind))}")
        return value
    if origin is tuple:
        if not isinstance(value, list):
            raise wrong(name, value, "a list of whole numbers")
        return tuple(convert(int, item, f"{name}[{i}]", from_text) for i, item in enumerate(value))
    if kind is int and from_text:
        try:
            return int(value)
        except ValueError:
            raise wrong(name, value, "a whole number") from None
    right = isinstance(value, origin or kind) and not isinstance(value, bool)
    if not right:
        raise wrong(name, value, {int: "a whole number", str: "a text"}.get(kind, "an object"))
    return value


def wrong(name: str, value: Any, may_be: str) -> HttpError:
    return HttpError(422, f"{name} = {shortened(value)} is not possible; it must be {may_be}")


def shortened(value: Any, most: int = 60) -> str:
    text = repr(value)
    return text if len(text) <= most else text[:most] + "…"
