"""A web server on loopback that breaks connections, ignores ranges and redirects, as the tests ask."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest


@dataclass
class Page:
    """What the server answers for a path."""

    content: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    ranges: bool = True
    breaks: list[int] = field(default_factory=list)  # bytes after which the next answers end, without their rest


@dataclass
class WebServer:
    url: str
    pages: dict[str, Page]
    requests: list[tuple[str, dict[str, str]]]  # path and headers, with lower-case names


class Handler(http.server.BaseHTTPRequestHandler):
    web: WebServer

    def do_GET(self) -> None:
        self.web.requests.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
        page = self.web.pages.get(self.path)
        if page is None:
            self.send_error(404)
            return
        content, status, extra = page.content, page.status, dict(page.headers)
        asked = self.headers.get("Range", "")
        if asked and page.ranges and status == 200:
            start = int(asked.removeprefix("bytes=").removesuffix("-"))
            status, extra["Content-Range"] = 206, f"bytes {start}-{len(content) - 1}/{len(content)}"
            content = content[start:]
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **extra}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content[: page.breaks.pop(0)] if page.breaks else content)

    def log_message(self, *args: Any) -> None: ...


@contextmanager
def serve() -> Iterator[WebServer]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        web = WebServer(f"http://127.0.0.1:{server.server_port}", {}, [])
        server.RequestHandlerClass = type("Bound", (Handler,), {"web": web})
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield web
        server.shutdown()
        thread.join()


@pytest.fixture
def web() -> Iterator[WebServer]:
    with serve() as server:
        yield server


@pytest.fixture
def other_web() -> Iterator[WebServer]:
    """A second host: the same address with another port."""
    with serve() as server:
        yield server


MakePage = Callable[..., Page]


@pytest.fixture
def page() -> MakePage:
    return Page
