"""A disconnected client frees its place in the queue. The tests call the ASGI app, to disconnect at an exact point."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from regard.serve.api import Api
from regard.serve.app import build_app
from regard.serve.http_error import HttpError
from regard.serve.loaded_models import LoadedModels
from regard.serve.queues import Queues
from regard.serve.runs import RunFolders
from regard.serve.toy import ToyTraining
from regard.serve.trace_cache import TraceCache
from regard.serve.workers import Workers

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
