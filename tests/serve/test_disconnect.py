"""A disconnected client frees its place in the queue, and the model that searches for it.

Some tests call the ASGI app, to disconnect at an exact point. The others are real clients on real sockets, of a model
whose translations never end: that a next client gets an answer shows that the search was cancelled.
"""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.decode.engine import Engine
from regard.inspect.answers import Limits
from regard.models.transformer import Transformer
from regard.serve.api import Api
from regard.serve.app import build_app
from regard.serve.http_error import HttpError
from regard.serve.loaded_models import LoadedModels
from regard.serve.queues import Queues
from regard.serve.runs import RunFolders
from regard.serve.toy import ToyTraining
from regard.serve.trace_cache import TraceCache
from regard.serve.workers import Workers
from regard.tokenizers.sentencepiece import SentencePieceModel
from regard.tokenizers.special_ids import EOS

LONG = 200_000  # tokens: hours, because attention is quadratic
ENDLESS = {"max_length_ratio": 0.0, "max_length_extra": LONG}
NO_HEAD = {"kind": "head", "where": "encoder.0.attention", "head": 0}
SEARCHES = {
    "beam search in the engine": ("/api/translate", {"options": {**ENDLESS, "beam": 2}}),
    "sampling in the engine": ("/api/translate", {"options": {**ENDLESS, "method": "sample"}, "n_best": 2}),
    "the tree of a beam search": ("/api/beam", {"options": {**ENDLESS, "beam": 2}}),
    "a translation before a trace": ("/api/trace", {"options": {**ENDLESS, "beam": 1}}),
    "beam search in torch": ("/api/translate", {"options": {**ENDLESS, "beam": 2}, "interventions": [NO_HEAD]}),
    "sampling in torch": (
        "/api/translate",
        {"options": {**ENDLESS, "method": "sample"}, "interventions": [NO_HEAD]},
    ),
    "sampling in a stream": ("/api/translate/lines", {"options": {**ENDLESS, "method": "sample"}}),
    "a stream": ("/api/translate/lines", {"options": {**ENDLESS, "beam": 1}}),
}
SCOPE = {
    "type": "http",
    "method": "POST",
    "path": "/api/translate",
    "raw_path": b"/api/translate",
    "root_path": "",
    "query_string": b"",
    "headers": [(b"host", b"localhost"), (b"content-type", b"application/json")],
}


def test_disconnecting_removes_a_request_from_the_queue(deep_model: Path, tmp_path: Path) -> None:
    workers, toy = Workers(threads=1, queue_size=1), ToyTraining(tmp_path)
    app = build_app(Api(LoadedModels([deep_model]), RunFolders(tmp_path), toy, TraceCache(), Queues(quick=workers)))
    go = threading.Event()
    messages = [
        {"type": "http.request", "body": json.dumps({"text": "apple"}).encode(), "more_body": False},
        {"type": "http.disconnect"},
    ]

    async def receive() -> dict[str, Any]:
        return messages.pop(0)

    async def send(message: dict[str, Any]) -> None:
        pass

    async def ask() -> None:
        first = asyncio.ensure_future(workers.run(lambda: go.wait(60)))
        await asyncio.sleep(0)
        await app(SCOPE, receive, send)
        assert workers.busy == 1  # the first is at work; the one that left is not counted
        second = asyncio.ensure_future(workers.run(lambda: True))
        await asyncio.sleep(0)
        with pytest.raises(HttpError):
            await workers.run(lambda: True)
        go.set()
        assert await asyncio.gather(first, second) == [True, True]

    asyncio.run(ask())
    workers.close()
    toy.close()


@pytest.fixture
def endless_model(random_model: Any) -> Path:
    """A model that never ends a translation: EOS has a probability of e^-100 whatever it reads."""

    def never_end(model: Transformer, vocabulary: SentencePieceModel) -> None:
        model.decoder_norm.weight.zero_()
        model.decoder_norm.bias.zero_()[0] = 1.0  # the last hidden state is always the same
        model.output.weight[EOS, 0] = -100.0

    kind = {"norm_order": "pre", "tie_embeddings": "none", "n_decoder_layers": 1}
    return random_model("endless", torch.float32, change=never_end, **kind)


@contextmanager
def endless(serve: Any, model: Path, page: Path, runs: Path, **how: Any) -> Iterator[Any]:
    """A server whose only model searches for hours, unless it is cancelled."""
    with serve([model], runs, page, **how) as client:
        explorer = client.api.loaded.get("0").explorer
        explorer.limits, explorer.translator.max_sentence_tokens = Limits(pieces=LONG), LONG
        assert isinstance(explorer.translator.searcher, Engine)
        yield client


def send(client: Any, path: str, body: dict[str, Any]) -> socket.socket:
    """A connection on which a request has been sent."""
    content = json.dumps({"text": "apple", **body}).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{client.port}\r\nContent-Type: application/json\r\n"
    connection = socket.create_connection(("127.0.0.1", client.port), timeout=120)
    connection.sendall(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)
    return connection


def wait_until_busy(client: Any, busy: int) -> None:
    """Each attempt is a whole request to the same server."""
    for _ in range(5_000):
        if client.get("/health").json["busy"] == busy:
            return
    raise AssertionError(f"the server does not have {busy} requests in progress")


def answers(client: Any) -> bool:
    """Whether the model answers a small request: its only worker is free."""
    reply = client.post("/api/translate", {"text": "apple", "options": {"max_length_ratio": 0, "max_length_extra": 3}})
    return bool(reply.status == 200 and len(reply.json["alternatives"][0]["tokens"]) == 3)


def test_disconnecting_frees_the_model(serve: Any, endless_model: Path, page: Path, tmp_path: Path) -> None:
    with endless(serve, endless_model, page, tmp_path) as client:
        for search, (path, body) in SEARCHES.items():
            with send(client, path, body) as connection:
                wait_until_busy(client, 1)
                if search == "a stream":
                    assert connection.recv(1)  # it has found its first token
            assert answers(client), search
            assert client.get("/health").json["busy"] == 0


def test_disconnecting_cancels_one_request_only(serve: Any, endless_model: Path, page: Path, tmp_path: Path) -> None:
    """The requests that wait are cancelled, the one that runs is not, and then it is."""
    with endless(serve, endless_model, page, tmp_path) as client:
        path, body = SEARCHES["beam search in the engine"]
        with send(client, path, body):
            wait_until_busy(client, 1)
            with send(client, path, body), send(client, "/api/translate/lines", body):
                wait_until_busy(client, 3)
            wait_until_busy(client, 1)
        wait_until_busy(client, 0)
        assert answers(client)


@pytest.mark.parametrize("path", ["/api/translate", "/api/translate/lines"])
def test_a_search_ends_when_its_time_is_over(
    serve: Any, endless_model: Path, page: Path, tmp_path: Path, path: str
) -> None:
    with endless(serve, endless_model, page, tmp_path, answer_seconds=0.5) as client:
        body = {"text": "apple", "options": {**ENDLESS, "method": "sample"}}
        assert client.post(path, body).status == 503
        wait_until_busy(client, 0)


def test_the_server_stops_while_a_search_runs(serve: Any, endless_model: Path, page: Path, tmp_path: Path) -> None:
    with endless(serve, endless_model, page, tmp_path) as client:
        connection = send(client, *SEARCHES["beam search in the engine"])
        wait_until_busy(client, 1)
    with connection:
        assert connection.recv(1) == b""
