"""The server's requests: one frozen dataclass per body or query, read strictly by `config.parsing`.

The OpenAPI document and the page's TypeScript types are generated from the same dataclasses.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypeVar, get_args, get_type_hints

from regard.config import DecodeConfig, build
from regard.config.parsing import setting
from regard.inspect.explorer import Question
from regard.inspect.interventions import Intervention
from regard.serve.schema import PartOf

MAX_INTERVENTIONS = 512
MAX_VARIANTS = 64
MIN_TOY_SECONDS, MAX_TOY_SECONDS = 5, 600
Options = Annotated[dict[str, Any], PartOf(DecodeConfig, "DecodeOptions")]  # checked by the translator


@dataclass(frozen=True)
class NoParameters:
    """Neither a body nor a query."""


@dataclass(frozen=True)
class TokensBody:
    text: str
    model: str = "0"
    side: Literal["src", "tgt"] = "src"


@dataclass(frozen=True)
class TextBody:
    text: str
    model: str = "text-0"


@dataclass(frozen=True)
class SentenceBody:
    text: str
    model: str = "0"
    options: Options = field(default_factory=dict)
    prefix_ids: tuple[int, ...] | None = None  # how the translation must begin
    interventions: tuple[Intervention, ...] = setting((), max_length=MAX_INTERVENTIONS)

    def question(self) -> Question:
        return Question(self.text, self.options, self.prefix_ids or (), self.interventions)


@dataclass(frozen=True)
class TranslateBody(SentenceBody):
    n_best: int = 1


@dataclass(frozen=True)
class BeamBody(SentenceBody):
    n_best: int | None = None  # null: as many as the beam


@dataclass(frozen=True)
class TraceBody(SentenceBody):
    tgt_ids: tuple[int, ...] | None = None  # null: those that a search finds


@dataclass(frozen=True)
class EffectsBody:
    text: str
    tgt_ids: tuple[int, ...]
    variants: tuple[tuple[Intervention, ...], ...] = setting((), max_length=MAX_VARIANTS)
    model: str = "0"


@dataclass(frozen=True)
class SummaryBody:
    trace: str


@dataclass(frozen=True)
class ToyBody:
    task: Literal["reverse", "copy"] = "reverse"
    seconds: int = setting(60, low=MIN_TOY_SECONDS, high=MAX_TOY_SECONDS)


@dataclass(frozen=True)
class TensorQuery:
    path: str
    head: int | None = None


@dataclass(frozen=True)
class NextQuery:
    step: int
    k: int = setting(20, low=1, high=100)  # number of tokens


@dataclass(frozen=True)
class BlockQuery:
    side: Literal["encoder", "decoder"]
    layer: int
    position: int


@dataclass(frozen=True)
class ParameterQuery:
    name: str
    rows: str | None = None  # such as "3,17,4"; they are returned in this order
    columns: str | None = None  # such as "64-128", which excludes 128


@dataclass(frozen=True)
class AfterQuery:
    after: int = -1  # return only what comes after this step


T = TypeVar("T")


def read_query(kind: type[T], query: Mapping[str, str]) -> T:
    """A dataclass from the parameters of a URL, which are all texts: those of integer fields are converted first."""
    hints = get_type_hints(kind)
    integers = {name for name, hint in hints.items() if int in (hint, *get_args(hint))}
    return build(kind, {name: integer(value) if name in integers else value for name, value in query.items()}, "")


def integer(text: str) -> int | str:
    try:
        return int(text)
    except ValueError:
        return text  # the reader refuses it, by the name of the field
