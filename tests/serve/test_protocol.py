"""Clients that take their time, send nonsense or do not read: real sockets."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from regard.serve import request_body
from regard.serve.protocol import ConnectionLimits
from regard.serve.request_body import MAX_BODY

HALF = b"GET /api/models HTTP/1.1\r\nHost: 127.0.0.1\r\nX: "
POST = b"POST /api/translate HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
BODY = POST + b"Content-Length: 20\r\n\r\n{"


def connect(client: Any) -> socket.socket:
    return socket.create_connection(("127.0.0.1", client.port), timeout=60)


def rest(connection: socket.socket) -> bytes:
    """All that the server sends until it closes the connection."""
    received = b""
    try:
        while part := connection.recv(1 << 16):
            received += part
    except ConnectionResetError:
        pass
    return received


def until(other: Any, condition: Callable[[], bool]) -> None:
    """Wait for requests that are on their way: each attempt is a whole request to another server."""
    for _ in range(10_000):
        if condition():
            return
        assert other.get("/health").status == 200
    raise AssertionError("the requests have not arrived")


@pytest.fixture(scope="module")
def hurried(serve: Any, deep_model: Path, page: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A server without patience, for eight connections."""
    limits = ConnectionLimits(8, header_seconds=0.5, body_seconds=0.5, write_seconds=0.5, check_seconds=0.05)
    with serve([deep_model], tmp_path_factory.mktemp("runs"), page, connections=limits) as client:
        yield client


@pytest.fixture(scope="module")
def patient(serve: Any, deep_model: Path, page: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A server for eight connections that never loses patience."""
    limits = ConnectionLimits(8, header_seconds=1e6, body_seconds=1e6, write_seconds=1e6)
    with serve([deep_model], tmp_path_factory.mktemp("runs"), page, connections=limits) as client:
        yield client


def test_headers_that_do_not_end(hurried: Any) -> None:
    received = b""
    while not received:  # on a busy machine, the first byte may come too late
        with connect(hurried) as connection:
            connection.sendall(HALF)
            received = rest(connection)
    head, _, body = received.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 408 ")
    assert b"connection: close" in head.lower()
    assert json.loads(body)["error"] == "the headers did not arrive within 0.5 seconds"


def test_a_connection_that_is_not_used_is_closed(hurried: Any) -> None:
    with connect(hurried) as connection:
        assert rest(connection) == b""


@pytest.mark.parametrize("sent", [BODY, b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\n"])
def test_a_body_that_does_not_end(hurried: Any, sent: bytes) -> None:
    with connect(hurried) as connection:
        connection.sendall(sent)
        rest(connection)  # until it is closed


def test_an_answer_that_is_not_read(hurried: Any) -> None:
    """The requests are pipelined; their answers are larger than what the system buffers."""
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(60)
        connection.connect(("127.0.0.1", hurried.port))
        request = b"GET /api/openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
        try:
            while True:  # until the server has closed the connection
                connection.sendall(request)
        except ConnectionError:
            pass


def test_half_open_connections_keep_nobody_out(patient: Any) -> None:
    with ExitStack() as stack:
        for number in range(300):
            connection = stack.enter_context(connect(patient))
            connection.sendall(BODY if number % 2 else HALF)
        for _ in range(3):
            assert patient.get("/health").status == 200
            assert patient.post("/api/translate", {"text": "apple"}).status == 200


def test_too_many_answers_at_once_are_refused(patient: Any, client: Any) -> None:
    question = json.dumps({"text": "apple"}).encode()
    workers = patient.api.queues.of("0")
    with ExitStack() as stack:
        with patient.api.loaded.get("0").lock:
            connections = [stack.enter_context(connect(patient)) for _ in range(8)]
            for number, connection in enumerate(connections):
                connection.sendall(POST + b"Content-Length: %d\r\n\r\n" % len(question) + question)
                until(client, lambda number=number: workers.busy > number)
            refused = patient.get("/health")
            assert (refused.status, refused.headers["retry-after"]) == (503, "1")
            assert refused.json["error"] == "server busy: too many connections"
        for connection in connections:
            assert connection.recv(15) == b"HTTP/1.1 200 OK"
    assert patient.get("/health").status == 200


@pytest.mark.parametrize(
    "sent",
    [
        b"nonsense\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1, 2\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 20_000,
        b"HEAD / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip\r\n\r\n",
    ],
)
def test_what_is_not_http(client: Any, sent: bytes) -> None:
    with connect(client) as connection:
        connection.sendall(sent)
        head, _, body = rest(connection).partition(b"\r\n\r\n")
    assert head.split()[1] in (b"400", b"501")
    assert json.loads(body)["error"] == "this is not a valid HTTP request"
    assert b"content-type: application/json" in head.lower()


def test_nonsense_in_the_middle_of_a_body_ends_the_connection(client: Any) -> None:
    start = BODY.replace(b"Content-Length: 20", b"Transfer-Encoding: chunked").removesuffix(b"{")
    with connect(client) as connection:
        connection.sendall(start + b"zz\r\n")
        assert rest(connection).startswith(b"HTTP/1.1 400 ")
    assert client.get("/health").status == 200


def test_nonsense_after_a_request_whose_answer_has_no_body(client: Any) -> None:
    with connect(client) as connection:
        connection.sendall(b"HEAD /health HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n")
        assert rest(connection).partition(b"\r\n\r\n")[2] == b""
    assert client.get("/health").status == 200


def test_a_body_that_is_declared_too_large_is_not_awaited(client: Any) -> None:
    with connect(client) as connection:
        connection.sendall(BODY.replace(b"20", b"262145").replace(b"\r\n\r\n", b"\r\nExpect: 100-continue\r\n\r\n"))
        assert connection.recv(13) == b"HTTP/1.1 413 "


def test_a_body_without_a_length_is_limited_too(client: Any) -> None:
    start = BODY.replace(b"Content-Length: 20", b"Transfer-Encoding: chunked").removesuffix(b"{")
    with connect(client) as connection:
        connection.sendall(start + b"%x\r\n" % (MAX_BODY + 1) + b" " * (MAX_BODY + 1))
        assert connection.recv(13) == b"HTTP/1.1 413 "


def test_a_body_has_a_time_limit(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_body, "BODY_SECONDS", 0.05)
    with connect(client) as connection:
        connection.sendall(BODY)
        received = rest(connection)
    assert received.startswith(b"HTTP/1.1 408 ")
    assert b"the body did not arrive within 0.05 seconds" in received


def test_pipelined_requests_are_answered_in_order(client: Any) -> None:
    paths = [b"/health", b"/api/nothing", b"/health"]
    with connect(client) as connection:
        connection.sendall(b"".join(b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n" % path for path in paths))
        connection.sendall(b"GET /nothing HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        received = rest(connection)
    assert re.findall(rb"HTTP/1\.1 (\d+)", received) == [b"200", b"404", b"200", b"404"]
