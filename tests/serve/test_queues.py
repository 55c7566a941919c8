"""A busy model blocks nobody but those who ask it: a real server over HTTP, and a model that is busy until told."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

from regard.core.taps import hook_taps
from regard.serve.queues import MODEL_QUEUE

TEXT = "apple baby bird"


@contextmanager
def busy(client: Any, model: str, requests: int) -> Iterator[list[Any]]:
    """This model is held, and so many requests have arrived for it; the list gets their replies at the end."""
    replies: list[Any] = []
    workers = client.api.queues.of(model)
    with ThreadPoolExecutor(requests) as pool:
        with client.api.loaded.get(model).lock:
            waiting = [
                pool.submit(client.post, "/api/translate", {"text": TEXT, "model": model}) for _ in range(requests)
            ]
            until(client, lambda: workers.busy == requests)
            yield replies
        replies += [one.result(60) for one in waiting]


def until(client: Any, condition: Any) -> None:
    """Wait for requests that are on their way: each attempt is a whole request to the same server."""
    for _ in range(10_000):
        if condition():
            return
        assert client.get("/health").status == 200
    raise AssertionError("the requests have not arrived")


def test_a_busy_model_blocks_neither_the_others_nor_the_lists(client: Any) -> None:
    header, _ = client.post("/api/trace", {"text": TEXT, "model": "0"}).arrays()
    with busy(client, "0", 4) as replies:
        assert client.get("/health").json["busy"] == 4
        models = client.get("/api/models").json["models"]
        assert [model["id"] for model in models] == ["0", "1"]
        assert client.get("/api/runs").status == 200
        assert client.get(f"/api/runs/{client.get('/api/runs').json['runs'][0]['name']}/metrics").status == 200
        assert client.post("/api/translate", {"text": TEXT, "model": "1"}).status == 200
        assert client.post("/api/trace", {"text": TEXT, "model": "1"}).status == 200
        assert client.post("/api/tokens", {"text": TEXT, "model": "0"}).status == 200  # needs no model
        assert client.get(f"/api/trace/{header['trace']}/tensor?path=logits").status == 200  # it is in the cache
        assert client.post("/api/translate", {"text": 5, "model": "0"}).status == 422
        assert client.post("/api/translate", {"text": TEXT, "model": "7"}).status == 404
        assert not replies
    assert [reply.status for reply in replies] == [200] * 4
    assert client.get("/health").json["busy"] == 0


def test_the_queue_of_a_model_is_bounded(client: Any) -> None:
    with busy(client, "0", MODEL_QUEUE + 1) as replies:
        for path in ("/api/translate", "/api/translate/lines"):
            refused = client.post(path, {"text": TEXT, "model": "0"})
            assert (refused.status, refused.headers["retry-after"]) == (503, "1")
            assert refused.json["error"].startswith("server busy")
        assert client.post("/api/translate", {"text": TEXT, "model": "1"}).status == 200
    assert [reply.status for reply in replies] == [200] * (MODEL_QUEUE + 1)


@pytest.mark.parametrize("path", ["/api/translate", "/api/translate/lines"])
def test_an_answer_has_a_time_limit(serve: Any, deep_model: Path, page: Path, tmp_path: Path, path: str) -> None:
    with serve([deep_model], tmp_path, page, answer_seconds=0.2) as client, client.api.loaded.get("0").lock:
        reply = client.post(path, {"text": TEXT})
        assert (reply.status, reply.headers["retry-after"]) == (503, "1")
        assert reply.json["error"] == "server busy: the answer was not ready after 0.2 seconds"
        assert client.get("/health").status == 200


def test_a_stream_that_has_begun_ends_with_the_reason(serve: Any, deep_model: Path, page: Path, tmp_path: Path) -> None:
    release, steps = threading.Event(), []

    def slowly(path: str, _: Tensor) -> None:
        """The model waits in its second step, as one that is very large."""
        steps.append(path)
        if len(steps) == 2:
            assert release.wait(60)

    with serve([deep_model], tmp_path, page, answer_seconds=2) as client:
        model = client.api.loaded.get("0").explorer.translator.model
        with hook_taps(model, {"decoder.1.ffn.ffn_out": slowly}):
            reply = client.post("/api/translate/lines", {"text": TEXT, "options": {"beam": 1}})
            release.set()
            until(client, lambda: client.api.queues.busy == 0)
    lines = [json.loads(line) for line in reply.sent.splitlines()]
    assert "added" in lines[0]
    assert lines[-1]["error"] == "server busy: the answer was not ready after 2 seconds"
    assert len(steps) == 2  # the search has stopped
