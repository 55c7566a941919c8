"""The explorer's API: which questions there are, and who answers them.

One table says of each endpoint its method, its path, the dataclass of what it takes, and what it gives: the routes
and the OpenAPI document are made from it. Answers are made in worker threads; a dict becomes JSON, bytes are a
binary body (see `inspect.wire`). A translation can also be followed while it is written, line by line.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal

from regard import __version__
from regard.inspect.explorer import Passage
from regard.inspect.trace import Trace
from regard.serve.http_error import HttpError
from regard.serve.loaded_models import LoadedModel, Shelf
from regard.serve.requests import (
    AfterQuery,
    BeamBody,
    BlockQuery,
    NextQuery,
    Nothing,
    ParameterQuery,
    SummaryBody,
    TensorQuery,
    TokensBody,
    ToyBody,
    TraceBody,
    TranslateBody,
)
from regard.serve.runs import Runs
from regard.serve.toy import ToyTraining
from regard.serve.traces import Kept, Traces

Gives = Literal["json", "binary", "lines"]
MEDIA: dict[Gives, str] = {
    "json": "application/json",
    "binary": "application/octet-stream",
    "lines": "application/x-ndjson",
}


@dataclass(frozen=True)
class Endpoint:
    method: Literal["GET", "POST"]
    path: str
    name: str  # of the method of Api that answers
    takes: type[Any]
    gives: Gives
    summary: str


ENDPOINTS = (
    Endpoint("GET", "/api/models", "models", Nothing, "json", "The models on offer, and what may be asked of them."),
    Endpoint("GET", "/api/models/{model}/parameter", "parameter", ParameterQuery, "binary", "A matrix of the model."),
    Endpoint("GET", "/api/models/{model}/probes", "history", AfterQuery, "binary", "How its attention took shape."),
    Endpoint("POST", "/api/tokens", "tokens", TokensBody, "json", "How a text is cut into pieces, merge by merge."),
    Endpoint("POST", "/api/translate", "translate", TranslateBody, "json", "Translations of a text, best first."),
    Endpoint("POST", "/api/translate/lines", "follow", TranslateBody, "lines", "The same, while it is written."),
    Endpoint("POST", "/api/beam", "beam", BeamBody, "json", "The tree of a beam search: what was kept and pruned."),
    Endpoint("POST", "/api/trace", "trace", TraceBody, "binary", "One pass through the model: all attention maps."),
    Endpoint("GET", "/api/trace/{trace}/tensor", "tensor", TensorQuery, "binary", "One tap of a trace, exact."),
    Endpoint("GET", "/api/trace/{trace}/next", "next", NextQuery, "json", "The likeliest tokens at a step, by layer."),
    Endpoint("GET", "/api/trace/{trace}/block", "block", BlockQuery, "json", "The residual stream at a position."),
    Endpoint("POST", "/api/attention-summary", "summary", SummaryBody, "json", "Figures of every head, to sort by."),
    Endpoint("GET", "/api/runs", "list_runs", Nothing, "json", "The trainings, and which of them goes on."),
    Endpoint("GET", "/api/runs/{run}/metrics", "metrics", AfterQuery, "json", "The reports of a training."),
    Endpoint("GET", "/api/runs/{run}/probes", "probes", AfterQuery, "binary", "Attention through a training."),
    Endpoint("POST", "/api/toy", "toy", ToyBody, "json", "Start a small training of a minute."),
)


class Api:
    """The answers. Every method but `__init__` may be called from several threads."""

    def __init__(self, shelf: Shelf, runs: Runs, toy: ToyTraining, traces: Traces) -> None:
        self.shelf, self.runs, self.toy_training, self.traces = shelf, runs, toy, traces

    def models(self, _: Nothing) -> dict[str, Any]:
        self.shelf.add_new(self.toy_training.models())
        cards = [book.card() for book in self.shelf.books.values()]
        return {"models": cards, "limits": asdict(self.shelf.limits), "version": __version__}

    def parameter(self, query: ParameterQuery, model: str) -> bytes:
        book = self.shelf.book(model)
        with book.lock:
            return book.explorer.parameter(query.name, query.rows, query.columns)

    def history(self, query: AfterQuery, model: str) -> bytes:
        return self.shelf.book(model).film(query.after)

    def tokens(self, body: TokensBody) -> dict[str, Any]:
        return self.shelf.book(body.model).explorer.tokens(body.text, body.side)

    def translate(self, body: TranslateBody) -> dict[str, Any]:
        book = self.shelf.book(body.model)
        with book.lock:
            return book.explorer.translate(body.question(), body.n_best)

    def follow(self, body: TranslateBody, tell: Callable[[dict[str, Any]], None]) -> None:
        book = self.shelf.book(body.model)
        with book.lock:
            tell({"translation": book.explorer.translate(body.question(), body.n_best, tell)})

    def beam(self, body: BeamBody) -> dict[str, Any]:
        book = self.shelf.book(body.model)
        with book.lock:
            return book.explorer.beam(body.question(), body.n_best)

    def trace(self, body: TraceBody) -> bytes:
        book = self.shelf.book(body.model)
        with book.lock:
            passage = book.explorer.passage(body.question(), body.tgt_ids)
        name = passage.digest(book.id)
        _, passage, trace = self.kept(name, Kept(book.id, passage, None))
        return book.explorer.overview(passage, trace, name)

    def kept(self, name: str, new: Kept | None = None) -> tuple[LoadedModel, Passage, Trace]:
        """A trace by its name, made (again) where its numbers are not at hand."""
        kept = self.traces.get(name) or new
        if kept is None:
            raise HttpError(404, f"there is no trace {name!r} any more", "ask for the trace of the sentence again")
        book = self.shelf.book(kept.model)
        if kept.trace is not None:
            return book, kept.passage, kept.trace
        with book.lock:
            trace = book.explorer.trace(kept.passage)
        self.traces.put(name, Kept(kept.model, kept.passage, trace))
        return book, kept.passage, trace

    def tensor(self, query: TensorQuery, trace: str) -> bytes:
        book, _, values = self.kept(trace)
        return book.explorer.tensor(values, query.path, query.head)

    def next(self, query: NextQuery, trace: str) -> dict[str, Any]:
        book, passage, values = self.kept(trace)
        with book.lock:
            return book.explorer.next(passage, values, query.step, query.k)

    def block(self, query: BlockQuery, trace: str) -> dict[str, Any]:
        book, _, values = self.kept(trace)
        return book.explorer.block(values, query.side, query.layer, query.position)

    def summary(self, body: SummaryBody) -> dict[str, Any]:
        book, _, values = self.kept(body.trace)
        return book.explorer.summary(values)

    def list_runs(self, _: Nothing) -> dict[str, Any]:
        return {"runs": self.runs.describe_all(), "toy": self.toy_training.state()}

    def metrics(self, query: AfterQuery, run: str) -> dict[str, Any]:
        return {"rows": self.runs.metrics(run, query.after)}

    def probes(self, query: AfterQuery, run: str) -> bytes:
        return self.runs.probes(run, query.after)

    def toy(self, body: ToyBody) -> dict[str, Any]:
        return {"run": self.toy_training.start(body.task, body.seconds)}
