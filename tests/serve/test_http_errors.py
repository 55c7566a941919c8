"""Every error is answered with a status code and a sentence, and the server keeps running."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from regard.serve.error_responses import UnexpectedErrors, error_response, to_http_error

TEXT = "apple baby"

WRONG: list[tuple[str, str, Any, int, str]] = [
    ("POST", "/api/translate", {}, 422, "text is missing; the keys are 'text', 'model'"),
    ("POST", "/api/translate", [], 422, "the body must be a JSON object"),
    ("POST", "/api/translate", None, 415, "the body must be application/json, not without a content type"),
    ("POST", "/api/translate", b"{", 400, "the body is not JSON: Expecting property name"),
    ("POST", "/api/translate", b"\xff", 400, "the body is not JSON: "),
    ("POST", "/api/translate", b"[" * 100_000, 400, "the body is not JSON: "),
    ("POST", "/api/translate", {"text": 5}, 422, "text = 5 is not possible; it must be a text"),
    ("POST", "/api/translate", {"text": TEXT, "bean": 4}, 422, "unknown key bean; it may be one of"),
    ("POST", "/api/translate", {"text": TEXT, "model": "7"}, 404, "there is no model '7'"),
    ("POST", "/api/translate", {"text": TEXT, "model": 0}, 422, "model = 0 is not possible; it must be a text"),
    (
        "POST",
        "/api/translate",
        {"text": TEXT, "options": 4},
        422,
        "options must be a table of settings (in JSON, an object), not 4",
    ),
    ("POST", "/api/translate", {"text": TEXT, "options": {"bean": 4}}, 422, "did you mean 'beam'?"),
    ("POST", "/api/translate", {"text": TEXT, "options": {"beam": "4"}}, 422, "it must be a whole number"),
    ("POST", "/api/translate", {"text": TEXT, "options": {"beam": 17}}, 422, "beam = 17 is not possible here"),
    ("POST", "/api/translate", {"text": TEXT, "options": {"method": "guess"}}, 422, "one of 'beam', 'sample'"),
    ("POST", "/api/translate", {"text": TEXT, "n_best": 0}, 422, "n_best = 0 is not possible here"),
    ("POST", "/api/translate", {"text": TEXT, "n_best": True}, 422, "n_best = True is not possible"),
    ("POST", "/api/translate", {"text": TEXT, "prefix_ids": 4}, 422, "prefix_ids must be a list, not 4"),
    ("POST", "/api/translate", {"text": TEXT, "prefix_ids": [4, "5"]}, 422, "prefix_ids[1] = '5' is not possible"),
    ("POST", "/api/translate", {"text": TEXT, "prefix_ids": [3]}, 422, "contains the end token"),
    (
        "POST",
        "/api/translate",
        {"text": TEXT, "prefix_ids": [-1]},
        422,
        "has the id -1; the ids of the",
    ),
    ("POST", "/api/translate", {"text": TEXT, "prefix_ids": [10**20]}, 422, "prefix_ids[0] = 10000000000"),
    ("POST", "/api/translate", {"text": TEXT, "n_best": 10**400}, 422, "the most is 18446744073709551615"),
    ("GET", "/api/models/0/parameter?name=output.weight&rows=" + "9" * 5000, None, 422, "has no row '9999"),
    ("GET", "/api/models/0/parameter?name=output.weight&columns=0-" + "9" * 5000, None, 422, "has no columns '0-9999"),
    ("POST", "/api/translate", b'{"text": "\\ud800"}', 400, "half of a surrogate pair"),
    ("POST", "/api/translate", b'{"text": "\xed\xa0\x80"}', 400, "the body is not JSON: 'utf-8'"),
    ("POST", "/api/tokens", {"text": "a\ud800", "side": "src"}, 400, "half of a surrogate pair"),
    ("POST", "/api/tokens", {"text": "a", "\udfff": 1}, 400, "half of a surrogate pair"),
    ("POST", "/api/translate", {"text": TEXT, "options": {"\udc00": [{}]}}, 400, "half of a surrogate pair"),
    ("GET", "/%00", None, 404, "Not Found"),
    ("POST", "/api/translate", b'{"text": "a"' + b" " * 262_144 + b"}", 413, "the body is larger than 256 KB"),
    ("POST", "/api/translate", {"text": TEXT, "interventions": {}}, 422, "interventions must be a list"),
    (
        "POST",
        "/api/translate",
        {"text": TEXT, "interventions": [{"kind": "mask"}]},
        422,
        "'mask' has no effect on",
    ),
    (
        "POST",
        "/api/translate",
        {"text": TEXT, "interventions": [{"kind": "layer", "where": "encoder.7"}]},
        422,
        "there is no 'encoder.7' to change with 'layer'",
    ),
    (
        "POST",
        "/api/trace",
        {
            "text": TEXT,
            "interventions": [
                {"kind": "weight", "where": "encoder.0.attention", "head": 0, "row": 9, "column": 0, "value": 1}
            ],
        },
        422,
        "there is no row 9 in encoder.0.attention: it has 3",
    ),
    (
        "POST",
        "/api/translate",
        {"text": TEXT, "interventions": [{"kind": "mask"}] * 513},
        422,
        "has 513 items; the most",
    ),
    ("POST", "/api/translate", {"a" * 2000: TEXT}, 422, "unknown key aaa"),
    ("POST", "/api/translate", {"text": "a" * 2001}, 422, "the text has 2,001 characters"),
    ("POST", "/api/translate", {"text": "ж" * 600}, 422, "pieces; the explorer accepts up to 512"),
    ("POST", "/api/tokens", {"text": "a" * 2001}, 422, "the text has 2,001 characters"),
    ("POST", "/api/tokens", {"text": TEXT, "side": "source"}, 422, "it may be one of 'src', 'tgt'"),
    ("POST", "/api/translate", b'{"text": "' + b"a" * 300_000 + b'"}', 413, "the body is larger than 256 KB"),
    ("POST", "/api/trace", {"text": TEXT, "tgt_ids": [0]}, 422, "the translation contains the padding token"),
    ("POST", "/api/trace", {"text": TEXT, "tgt_ids": [5] * 513}, 422, "the translation has 513 pieces"),
    ("POST", "/api/trace", {"text": TEXT, "tgt_ids": [99999]}, 422, "the translation has the id 99999"),
    ("POST", "/api/beam", {"text": TEXT, "options": {"method": "sample"}}, 422, "is that of a beam search"),
    ("POST", "/api/attention-summary", {"trace": "abc"}, 404, "there is no trace 'abc'"),
    ("POST", "/api/toy", {"task": "sort"}, 422, "it may be one of 'reverse', 'copy'"),
    ("POST", "/api/toy", {"seconds": 4}, 422, "seconds = 4 is too small; the least is 5"),
    ("GET", "/api/trace/abc/tensor?path=logits", None, 404, "there is no trace 'abc'"),
    ("GET", "/api/models?all=1", None, 422, "unknown key all; no keys are accepted here"),
    ("GET", "/api/models/0/parameter", None, 422, "name is missing"),
    ("GET", "/api/models/0/parameter?name=encoder.0.wq", None, 422, "this model has no parameter 'encoder.0.wq'"),
    ("GET", "/api/models/0/parameter?name=encoder", None, 422, "this model has no parameter 'encoder'"),
    ("GET", "/api/models/0/parameter?name=output.weight&rows=1,x", None, 422, "output.weight has no row 'x'"),
    (
        *("GET", "/api/models/0/parameter?name=output.weight&rows=" + ",".join("1" * 5000), None, 422),
        "5,000 rows are too many; the most is ",
    ),
    ("GET", "/api/models/0/parameter?name=output.weight&rows=99999", None, 422, "has no row '99999': it has"),
    ("GET", "/api/models/0/parameter?name=output.weight&columns=60-65", None, 422, "has no columns '60-65': it has 64"),
    ("GET", "/api/models/0/parameter?name=output.weight&columns=3", None, 422, "output.weight has no columns '3'"),
    ("GET", "/api/models/0/probes", None, 404, "has no attention history"),
    ("GET", "/api/models/9/parameter?name=output.weight", None, 404, "there is no model '9'"),
    ("GET", "/api/runs/nothing/metrics", None, 404, "there is no run 'nothing'"),
    ("GET", "/api/runs/..%2F..%2Fetc/metrics", None, 404, "etc/metrics: Not Found"),
    ("GET", "/api/runs/run/metrics?after=x", None, 422, "after = 'x' is not possible; it must be a whole number"),
    ("GET", "/api/nothing", None, 404, "GET /api/nothing: Not Found"),
    ("GET", "/api/translate", None, 405, "GET /api/translate: Method Not Allowed"),
    ("DELETE", "/api/models", None, 405, "DELETE /api/models: Method Not Allowed"),
    ("GET", "/nothing.js", None, 404, "GET /nothing.js: Not Found"),
    ("GET", "/../pyproject.toml", None, 404, "Not Found"),
]


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "sentence"), WRONG, ids=[f"{i}-{row[3]}" for i, row in enumerate(WRONG)]
)
def test_a_sentence_for_each(client: Any, method: str, path: str, body: Any, status: int, sentence: str) -> None:
    reply = client.ask(method, path, body)
    assert reply.status == status, reply.body
    assert reply.headers["content-type"] == "application/json"
    assert set(reply.json) == {"error", "hint"}
    assert sentence in f"{reply.json['error']} {reply.json['hint']}"
    assert len(reply.body) < 1000


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("tensor?path=decoder.0.cross", "there is no tap 'decoder.0.cross'"),
        ("tensor?path=logits&head=0", "logits is not split into heads"),
        ("tensor?path=decoder.0.cross.q&head=4", "decoder.0.cross.q has no head 4: it has 4, numbered from 0"),
        ("tensor?path=decoder.0.cross.q&head=-1", "has no head -1"),
        ("tensor?path=decoder.0.cross.q&head=one", "head = 'one' is not possible; it must be a whole number"),
        ("tensor", "path is missing"),
        ("next?step=99", "there is no step 99: the translation has 3"),
        ("next?step=-1", "there is no step -1"),
        ("next?step=0&k=0", "k = 0 is too small; the least is 1"),
        ("next", "step is missing"),
        ("block?side=middle&layer=0&position=0", "it may be one of 'encoder', 'decoder'"),
        ("block?side=encoder&layer=1&position=0", "there is no layer 1 in the encoder: it has 1"),
        ("block?side=encoder&layer=0&position=3", "there is no position 3 in the encoder: it has 3"),
    ],
)
def test_what_a_trace_has_not(client: Any, query: str, sentence: str) -> None:
    header, _ = client.post("/api/trace", {"text": TEXT}).arrays()
    reply = client.get(f"/api/trace/{header['trace']}/{query}")
    assert reply.status == 422, reply.body
    assert sentence in reply.json["error"]


def test_only_json_is_taken(client: Any) -> None:
    body = json.dumps({"text": TEXT}).encode()
    for kind in ("text/plain", "application/x-www-form-urlencoded"):
        reply = client.ask("POST", "/api/translate", body, Content_Type=kind)
        assert (reply.status, reply.json["error"]) == (415, f"the body must be application/json, not {kind}")
    assert client.ask("POST", "/api/translate", body, Content_Type="application/json; charset=utf-8").status == 200


def test_the_longest_that_is_allowed_is_answered(client: Any) -> None:
    reply = client.post("/api/trace", {"text": "apple " * 330, "tgt_ids": [5] * 330})
    assert reply.status == 200
    assert len(reply.arrays()[0]["src"]) == 331


def test_an_internal_error_is_a_500(
    serve: Any, deep_model: Path, page: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with serve([deep_model], tmp_path, page) as client:
        client.api.loaded.by_id["0"].explorer.translator = None
        reply = client.post("/api/translate", {"text": TEXT})
        assert reply.status == 500
        assert (found := re.fullmatch(r"internal error ([0-9a-f]{8}) in Regard", reply.json["error"]))
        assert "AttributeError" not in reply.body.decode()
        assert "Content-Security-Policy".lower() in reply.headers
        assert client.get("/health").status == 200
    [record] = [one for one in caplog.records if one.name == "regard.serve"]
    assert record.getMessage().startswith(f"internal error {found[1]}: Traceback")
    assert "AttributeError" in record.getMessage()


def test_a_server_without_memory_is_busy() -> None:
    error = to_http_error(MemoryError())
    assert (error.status, str(error)) == (503, "server busy: not enough memory")
    assert error_response(error).headers["Retry-After"] == "1"


@pytest.mark.parametrize("started", [False, True])
def test_an_error_that_nobody_has_handled(started: bool) -> None:
    """Before the answer has begun it becomes one; later it is left to the server, which closes the connection."""
    sent: list[Message] = []

    async def fail(scope: Scope, receive: Receive, send: Send) -> None:
        if started:
            await send({"type": "http.response.start", "status": 200, "headers": []})
        raise MemoryError

    async def receive() -> Message:
        return {"type": "http.request"}

    async def send(message: Message) -> None:
        sent.append(message)

    answer = UnexpectedErrors(fail)({"type": "http"}, receive, send)
    if started:
        with pytest.raises(MemoryError):
            asyncio.run(answer)
        assert [message["status"] for message in sent] == [200]
    else:
        asyncio.run(answer)
        assert sent[0]["status"] == 503
        assert json.loads(sent[1]["body"])["error"] == "server busy: not enough memory"
