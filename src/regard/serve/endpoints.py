"""The API's endpoints: one table, from which the routes, the OpenAPI document and the TypeScript types are made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from regard.inspect.answers import (
    AttentionSummary,
    Beam,
    Block,
    Effects,
    Models,
    Next,
    ParameterHeader,
    TensorHeader,
    TraceHeader,
    Translation,
)
from regard.inspect.interventions import Intervention
from regard.inspect.packed_model import PackedModelHeader
from regard.inspect.wire import ArrayEntry
from regard.serve.requests import (
    AfterQuery,
    BeamBody,
    BlockQuery,
    EffectsBody,
    NextQuery,
    NoParameters,
    ParameterQuery,
    SummaryBody,
    TensorQuery,
    TextBody,
    TokensBody,
    ToyBody,
    TraceBody,
    TranslateBody,
)
from regard.serve.responses import (
    AttentionHistory,
    ErrorMessage,
    Health,
    Line,
    Metrics,
    Runs,
    TextModels,
    TextReading,
    ToyStarted,
)
from regard.serve.schema import records
from regard.tokenizers.segmentation import Segmentation

Form = Literal["json", "binary", "lines"]
# Who answers: the event loop; the threads for quick answers; the queue of the model in the request, or of the model of
# the trace, if its values have to be computed; the queue of what reads checkpoints. "search" is the queue of the model
# too: what is computed there can be cancelled, and is when the client disconnects.
Queue = Literal["loop", "quick", "model", "text", "search", "trace", "checkpoints"]
MEDIA_TYPES: dict[Form, str] = {
    "json": "application/json",
    "binary": "application/octet-stream",
    "lines": "application/x-ndjson",
}


# Unions that have a name in the API.
UNIONS: dict[str, Any] = {"Intervention": Intervention, "Line": Line}


@dataclass(frozen=True)
class Endpoint:
    method: Literal["GET", "POST"]
    path: str
    name: str  # of the method of Api
    request: type[Any]  # dataclass of the body or the query
    response: Any  # dataclass of the JSON; of a binary body, that of its header; of lines, that of each line
    form: Form
    queue: Queue
    summary: str
    compress: bool = True


ENDPOINTS = (
    Endpoint("GET", "/health", "health", NoParameters, Health, "json", "loop", "Whether the server runs."),
    Endpoint(
        "GET", "/api/models", "models", NoParameters, Models, "json", "quick", "The models, and the limits of requests."
    ),
    Endpoint(
        "GET",
        "/api/models/{model}/parameter",
        "parameter",
        ParameterQuery,
        ParameterHeader,
        "binary",
        "model",
        "A parameter.",
    ),
    Endpoint(
        "GET",
        "/api/models/{model}/packed",
        "packed",
        NoParameters,
        PackedModelHeader,
        "binary",
        "model",
        "A model that the page computes itself.",
        compress=False,  # it stays on this machine
    ),
    Endpoint(
        "GET",
        "/api/models/{model}/probes",
        "model_history",
        AfterQuery,
        AttentionHistory,
        "binary",
        "quick",
        "The attention history of a model's training.",
    ),
    Endpoint(
        "POST", "/api/tokens", "tokens", TokensBody, Segmentation, "json", "quick", "Tokenize a text, merge by merge."
    ),
    Endpoint(
        "POST", "/api/translate", "translate", TranslateBody, Translation, "json", "search", "Translations, best first."
    ),
    Endpoint(
        "POST",
        "/api/translate/lines",
        "stream_translation",
        TranslateBody,
        Line,
        "lines",
        "search",
        "The same, sent while the search runs.",
    ),
    Endpoint(
        "POST",
        "/api/beam",
        "beam",
        BeamBody,
        Beam,
        "json",
        "search",
        "The tree of a beam search, pruned nodes included.",
    ),
    Endpoint(
        "POST",
        "/api/trace",
        "trace",
        TraceBody,
        TraceHeader,
        "binary",
        "search",
        "One forward pass: all attention maps.",
    ),
    Endpoint(
        "POST",
        "/api/effects",
        "effects",
        EffectsBody,
        Effects,
        "json",
        "search",
        "How probable a translation remains under each of several sets of interventions.",
    ),
    Endpoint(
        "GET",
        "/api/trace/{trace}/tensor",
        "tensor",
        TensorQuery,
        TensorHeader,
        "binary",
        "trace",
        "The exact value of a tap.",
    ),
    Endpoint(
        "GET",
        "/api/trace/{trace}/next",
        "next",
        NextQuery,
        Next,
        "json",
        "trace",
        "The likeliest tokens at a step, by layer.",
    ),
    Endpoint(
        "GET",
        "/api/trace/{trace}/block",
        "block",
        BlockQuery,
        Block,
        "json",
        "trace",
        "The residual stream at a position.",
    ),
    Endpoint(
        "POST",
        "/api/attention-summary",
        "summary",
        SummaryBody,
        AttentionSummary,
        "json",
        "trace",
        "Statistics of every head.",
    ),
    Endpoint(
        "GET", "/api/texts", "text_models", NoParameters, TextModels, "json", "quick", "Language models and encoders."
    ),
    Endpoint(
        "POST",
        "/api/text",
        "read_text",
        TextBody,
        TextReading,
        "binary",
        "text",
        "One text in a language model or an encoder: attention maps and predictions.",
    ),
    Endpoint("GET", "/api/runs", "list_runs", NoParameters, Runs, "json", "quick", "The training runs."),
    Endpoint(
        "GET", "/api/runs/{run}/metrics", "metrics", AfterQuery, Metrics, "json", "quick", "The metrics of a run."
    ),
    Endpoint(
        "GET",
        "/api/runs/{run}/probes",
        "run_history",
        AfterQuery,
        AttentionHistory,
        "binary",
        "checkpoints",
        "The attention history of a run.",
    ),
    Endpoint("POST", "/api/toy", "toy", ToyBody, ToyStarted, "json", "quick", "Start training a toy model."),
)


def request_records() -> list[type[Any]]:
    """The dataclasses in requests, without duplicates."""
    return list(dict.fromkeys(kind for one in ENDPOINTS for kind in records(one.request)))


def response_records() -> list[type[Any]]:
    """The dataclasses and TypedDicts in responses, without duplicates."""
    kinds = (ErrorMessage, *(one.response for one in ENDPOINTS), ArrayEntry)
    return list(dict.fromkeys(record for kind in kinds for record in records(kind)))
