"""The explorer's API: a method per endpoint (`endpoints`). A dataclass is sent as JSON, bytes as a binary body."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, assert_never

from regard import __version__
from regard.decode.engine_control import SearchControl
from regard.inspect.answers import AttentionSummary, Beam, Block, Effects, Models, Next, Translation
from regard.inspect.explorer import Question
from regard.inspect.packed_model import pack_model
from regard.inspect.passage import TracedPassage
from regard.serve.endpoints import Endpoint
from regard.serve.http_error import HttpError
from regard.serve.loaded_models import LoadedModel, LoadedModels
from regard.serve.queues import Queues
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
from regard.serve.responses import FinishedTranslation, Health, Line, Metrics, Runs, TextModels, ToyStarted
from regard.serve.runs import RunFolders
from regard.serve.text_models import LoadedTexts
from regard.serve.toy import ToyTraining
from regard.serve.trace_cache import CachedTrace, TraceCache
from regard.serve.workers import Workers
from regard.tokenizers.segmentation import Segmentation


class Api:
    """The methods that answer may be called from several threads. `control` cancels what is no longer wanted."""

    def __init__(
        self,
        models: LoadedModels,
        runs: RunFolders,
        toy: ToyTraining,
        traces: TraceCache,
        queues: Queues,
        texts: LoadedTexts | None = None,
    ) -> None:
        self.texts = texts or LoadedTexts()
        self.loaded, self.runs, self.toy_training, self.traces, self.queues = models, runs, toy, traces, queues

    def queue(self, endpoint: Endpoint, request: Any, path: Mapping[str, str]) -> Workers:
        """Where a request is answered, which arrived with these parts of the path."""
        match endpoint.queue:
            case "loop" | "quick":
                return self.queues.of(None)
            case "model" | "search":
                return self.queues.of(self.loaded.get(path.get("model") or request.model).id)
            case "text":
                return self.queues.of(self.texts.get(request.model).id)
            case "trace":
                entry = self.traces.get(path.get("trace") or request.trace)
                if entry is None or (entry.traced is not None and endpoint.name != "next"):
                    return self.queues.of(None)
                return self.queues.of(entry.model)
            case "checkpoints":
                return self.queues.of("checkpoints")
            case _:
                assert_never(endpoint.queue)

    def health(self, _: NoParameters) -> Health:
        return Health(__version__, len(self.loaded.by_id), self.queues.busy)

    def models(self, _: NoParameters) -> Models:
        self.loaded.add_complete(self.toy_training.models())
        models = tuple(model.describe() for model in self.loaded.all())
        return Models(models, self.loaded.limits, __version__)

    def parameter(self, query: ParameterQuery, model: str) -> bytes:
        loaded = self.loaded.get(model)
        with loaded.lock:
            return loaded.explorer.parameter(query.name, query.rows, query.columns)

    def packed(self, _: NoParameters, model: str) -> bytes:
        loaded = self.loaded.get(model)
        return pack_model(loaded.explorer, loaded.describe())

    def model_history(self, query: AfterQuery, model: str) -> bytes:
        return self.loaded.get(model).attention_history(query.after)

    def tokens(self, body: TokensBody) -> Segmentation:
        return self.loaded.get(body.model).explorer.tokens(body.text, body.side)

    def translate(self, body: TranslateBody, control: SearchControl) -> Translation:
        loaded = self.loaded.get(body.model)
        with loaded.lock:
            return loaded.explorer.translate(body.question(), body.n_best, control=control)

    def stream_translation(self, body: TranslateBody, control: SearchControl, send: Callable[[Line], None]) -> None:
        loaded = self.loaded.get(body.model)
        with loaded.lock:
            send(FinishedTranslation(loaded.explorer.translate(body.question(), body.n_best, send, control)))

    def beam(self, body: BeamBody, control: SearchControl) -> Beam:
        loaded = self.loaded.get(body.model)
        with loaded.lock:
            return loaded.explorer.beam(body.question(), body.n_best, control)

    def trace(self, body: TraceBody, control: SearchControl) -> bytes:
        loaded = self.loaded.get(body.model)
        with loaded.lock:
            passage = loaded.explorer.passage(body.question(), body.tgt_ids, control)
        name = passage.digest(loaded.id)
        _, traced = self.traced(name, CachedTrace(loaded.id, passage))
        return traced.overview(name)

    def traced(self, name: str, new: CachedTrace | None = None) -> tuple[LoadedModel, TracedPassage]:
        """A trace by its name, computed if its values are not in the cache, and its model."""
        entry = self.traces.get(name) or new
        if entry is None:
            raise HttpError(404, f"there is no trace {name!r}, or no longer", "request the trace of the sentence again")
        loaded = self.loaded.get(entry.model)
        if entry.traced is not None:
            return loaded, entry.traced
        with loaded.lock:
            traced = loaded.explorer.trace(entry.passage)
        self.traces.put(name, CachedTrace(entry.model, entry.passage, traced))
        return loaded, traced

    def effects(self, body: EffectsBody, control: SearchControl) -> Effects:
        loaded = self.loaded.get(body.model)
        with loaded.lock:
            return loaded.explorer.effects(Question(body.text, {}), body.tgt_ids, body.variants, control)

    def tensor(self, query: TensorQuery, trace: str) -> bytes:
        _, traced = self.traced(trace)
        return traced.tensor(query.path, query.head)

    def next(self, query: NextQuery, trace: str) -> Next:
        loaded, traced = self.traced(trace)
        with loaded.lock:
            return traced.next(query.step, query.k)

    def block(self, query: BlockQuery, trace: str) -> Block:
        _, traced = self.traced(trace)
        return traced.block(query.side, query.layer, query.position)

    def summary(self, body: SummaryBody) -> AttentionSummary:
        _, traced = self.traced(body.trace)
        return traced.summary()

    def text_models(self, _: NoParameters) -> TextModels:
        return TextModels(tuple(model.describe() for model in self.texts.by_id.values()))

    def read_text(self, body: TextBody) -> bytes:
        return self.texts.get(body.model).read(body.text)

    def list_runs(self, _: NoParameters) -> Runs:
        return Runs(self.runs.describe_all(), self.toy_training.state())

    def metrics(self, query: AfterQuery, run: str) -> Metrics:
        return Metrics(self.runs.metrics(run, query.after))

    def run_history(self, query: AfterQuery, run: str) -> bytes:
        return self.runs.attention_history(run, query.after)

    def toy(self, body: ToyBody) -> ToyStarted:
        return ToyStarted(self.toy_training.start(body.task, body.seconds))
