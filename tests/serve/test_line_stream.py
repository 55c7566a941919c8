"""A translation that is sent while the search runs: real chunks on a real socket."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

from regard.core.taps import hook_taps
from regard.pipelines.model_translator import ModelTranslator
from regard.serve.api import Api
from regard.serve.app import build_app
from regard.serve.loaded_models import LoadedModels
from regard.serve.queues import Queues
from regard.serve.runs import RunFolders
from regard.serve.toy import ToyTraining
from regard.serve.trace_cache import TraceCache

TEXT = "apple baby bird blue"


def chunks(port: int, body: dict[str, Any]) -> tuple[int, list[bytes]]:
    """The status, and what the server sent, in the pieces in which it sent it."""
    content = json.dumps(body).encode()
    head = f"POST /api/translate/lines HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
    with socket.create_connection(("127.0.0.1", port), timeout=120) as connection:
        connection.sendall(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)
        with connection.makefile("rb") as answer:
            status = int(answer.readline().split()[1])
            headers = dict(line.lower().rstrip().split(b": ", 1) for line in iter(answer.readline, b"\r\n"))
            if b"content-length" in headers:
                return status, [answer.read(int(headers[b"content-length"]))]
            found = []
            while size := int(answer.readline(), 16):
                found.append(answer.read(size))
                answer.readline()
            return status, found


def written(lines: list[dict[str, Any]]) -> list[list[str]]:
    """The hypothesis after each line but the last."""
    states: list[list[str]] = []
    for line in lines[:-1]:
        before = states[-1] if states else []
        assert line["kept"] <= len(before)
        states.append([*before[: line["kept"]], *(token["piece"] for token in line["added"])])
    return states


def near(value: Any) -> Any:
    """What equals it but for the last digits: a search that is watched adds up its probabilities in another order."""
    if isinstance(value, dict):
        return {key: near(one) for key, one in value.items()}
    if isinstance(value, list):
        return [near(one) for one in value]
    return pytest.approx(value, abs=1e-5) if isinstance(value, float) else value


@pytest.mark.parametrize("options", [{}, {"beam": 1}, {"beam": 3, "length_penalty": 0.0}])
def test_tokens_are_sent_one_by_one_and_end_in_the_translation(client: Any, options: dict[str, Any]) -> None:
    status, sent = chunks(client.port, {"text": TEXT, "options": options, "n_best": 1})
    assert status == 200
    assert all(chunk.endswith(b"\n") and chunk.count(b"\n") == 1 for chunk in sent)  # one chunk per line
    lines = [json.loads(chunk) for chunk in sent]
    whole = client.post("/api/translate", {"text": TEXT, "options": options, "n_best": 1}).json
    assert lines[-1] == {"translation": near(whole)}
    states = written(lines)
    assert [len(state) for state in states][:4] == [1, 2, 3, 4]
    assert states[3] == [token["piece"] for token in whole["alternatives"][0]["tokens"]][:4]
    first = whole["alternatives"][0]["tokens"][0]
    assert lines[0]["added"] == [{**first, "log_prob": pytest.approx(first["log_prob"], abs=1e-5)}]


def test_the_best_hypothesis_may_change(client: Any) -> None:
    """The best hypothesis of an untrained model changes; the lines say how many tokens are unchanged."""
    _, sent = chunks(client.port, {"model": "1", "text": TEXT, "options": {"beam": 8}})
    lines = [json.loads(chunk) for chunk in sent]
    assert [len(state) for state in written(lines)] == list(range(1, len(lines)))


def test_sampling_sends_the_last_line_only(client: Any, reverse: ModelTranslator) -> None:
    options = {"method": "sample", "seed": 3}
    _, [line] = chunks(client.port, {"text": TEXT, "options": options})
    found = json.loads(line)["translation"]["alternatives"][0]["text"]
    assert found == reverse.translate([TEXT], **options)[0].text
    _, [line] = chunks(client.port, {"text": ""})
    assert json.loads(line)["translation"]["alternatives"][0]["tokens"] == []


def test_what_cannot_be_answered_is_refused_before_the_first_line(client: Any) -> None:
    for body, status, words in (
        ({"text": TEXT, "beam": 3}, 422, "unknown key"),
        ({"text": TEXT, "options": {"beam": 99}}, 422, "beam = 99"),
        ({"text": TEXT, "model": "7"}, 404, "there is no model"),
        ({"text": "a" * 3000}, 422, "3,000 characters"),
    ):
        code, [said] = chunks(client.port, body)
        assert code == status
        assert words in json.loads(said)["error"]


def test_disconnecting_cancels_the_search(deep_model: Path, tmp_path: Path) -> None:
    """Disconnecting after the first line frees the worker. It calls the ASGI app, to disconnect at an exact point."""
    queues, toy = Queues(), ToyTraining(tmp_path)
    api = Api(LoadedModels([deep_model]), RunFolders(tmp_path), toy, TraceCache(), queues)
    steps: list[str] = []
    left = threading.Event()

    def slowly(path: str, _: Tensor) -> None:
        """The model waits in its second step until the client has disconnected."""
        steps.append(path)
        if len(steps) == 2:
            assert left.wait(60)

    app = build_app(api)
    body = json.dumps({"text": TEXT, "options": {"beam": 1}}).encode()
    gone = asyncio.Event()

    async def receive() -> dict[str, Any]:
        if not received:
            received.append(True)
            return {"type": "http.request", "body": body, "more_body": False}
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        if message.get("body"):
            gone.set()

    received: list[bool] = []
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/api/translate/lines",
        "raw_path": b"/api/translate/lines",
        "root_path": "",
        "query_string": b"",
        "headers": [(b"host", b"localhost"), (b"content-type", b"application/json")],
    }

    async def ask() -> None:
        await app(scope, receive, send)
        left.set()

    with hook_taps(api.loaded.get("0").explorer.translator.model, {"decoder.1.ffn.ffn_out": slowly}):
        asyncio.run(ask())
        queues.close()  # waits for the worker
    toy.close()
    assert len(steps) in (1, 2)  # the client may have left before the second
    assert queues.busy == 0
