"""A server on loopback that answers downloads as no honest one would, for `commands.py`: a hub and sources of corpora.

Each answer is drawn at random: the right one, one with damaged bytes, one that is too short or too long, an error, a
redirect to nowhere. It is a process of its own, so that it neither takes the fuzzer's time nor its memory.
"""

from __future__ import annotations

import gzip
import hashlib
import http.server
import json
import os
import random
import signal
import socketserver
from contextlib import suppress
from pathlib import Path
from typing import Any

COMMIT = "0123456789abcdef0123456789abcdef01234567"
VALUES: tuple[Any, ...] = (None, -1, 0, 3, 10**30, 0.5, "", "x", "../config.json", "\ud800", [], {}, [[]], {"a": 1})
REDIRECTS = ("http://[::1", "file:///etc/passwd", "/", "//", "http://127.0.0.1:1/", "http://a:b@c/", "/\xe9", " ", "\t")
CORPORA = {
    "plain": ("unchanged", b"one line\nanother\n"),
    "spaced": ("spaces", b"one  line\nanother\n"),
    "csv": ("csv", b"text,label\none,a\n"),
    "idx": ("first", bytes.fromhex("00000803 00000003 00000001 00000002") + b"abcdef"),
}


class HostileServer:
    """`names` are those of the models that its hub has, `corpora` those of the table at `table`."""

    corpora = (*CORPORA, "wrong")

    def __init__(self, models: list[Path], table: Path, seed: int) -> None:
        self.names = [f"owner/{folder.name}" for folder in models]
        pages = {f"/{name}.gz": gzip.compress(content, mtime=0) for name, (_, content) in CORPORA.items()}
        for name, folder in zip(self.names, models, strict=True):
            pages |= model_pages(name, folder)
        with http.server.HTTPServer(("127.0.0.1", 0), handler(pages, random.Random(seed))) as server:
            self.url = f"http://127.0.0.1:{server.server_port}"
            table.write_text("".join(entry(self.url, name) for name in self.corpora))
            self.process = os.fork()
            if not self.process:
                server.serve_forever()

    def close(self) -> None:
        os.kill(self.process, signal.SIGKILL)
        os.waitpid(self.process, 0)


def model_pages(name: str, folder: Path) -> dict[str, bytes]:
    files = {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
    siblings = [
        {"rfilename": file, "lfs": {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}}
        for file, content in files.items()
    ]
    pages = {f"/{name}/resolve/{COMMIT}/{file}": content for file, content in files.items()}
    return pages | {f"/api/models/{name}/revision": json.dumps({"sha": COMMIT, "siblings": siblings}).encode()}


def entry(url: str, name: str) -> str:
    """Of the table of corpora; that of "wrong" is one whose file is another."""
    from regard.data.fetch import prepare
    from regard.data.published import PublishedFile

    preparation, content = CORPORA.get(name, CORPORA["plain"])
    source = name if name in CORPORA else "plain"
    first = 2 if preparation == "first" else 0
    file = PublishedFile(f"{name}.gz", f"{url}/{source}", 0, "", preparation, first)  # type: ignore[arg-type]
    prepared = prepare(file, content) if name in CORPORA else b"what nobody has"
    return (
        f'[[corpora]]\nname = "{name}"\nabout = "a"\nsource = "b"\nlicence = "c"\nfiles = [{{ name = "{name}.gz", '
        f'url = "{url}/{source}.gz", size = {len(prepared)}, sha256 = "{hashlib.sha256(prepared).hexdigest()}", '
        f'preparation = "{preparation}", first = {first} }}]\n'
    )


def handler(pages: dict[str, bytes], draw: random.Random) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            content = pages.get(path) or pages.get(path.rpartition("/")[0])  # of a revision
            if content is None:
                self.send_error(404)
                return
            status, length, place = 200, len(content), ""
            match draw.randrange(12):
                case 0:
                    content = damaged(content, draw)
                case 1:
                    content = content[: draw.randrange(len(content) + 1)]
                case 2:
                    length = draw.choice((0, len(content) * 2, -1, 10**30))
                case 3:
                    status = draw.choice((204, 206, 301, 400, 401, 404, 416, 429, 500, 503))
                case 4:
                    status, place = 302, draw.choice(REDIRECTS)
                case 5 if path.startswith("/api"):
                    content = json.dumps(changed(json.loads(content), draw)).encode()
                    length = len(content)
            with suppress(OSError):  # the client has what it wanted
                self.send_response(status)
                self.send_header("Content-Length", str(length))
                if place:
                    self.send_header("Location", place)
                if draw.random() < 0.05:
                    self.send_header("Content-Range", draw.choice(("bytes 0-1/2", "bytes 9-1/*", "x", "")))
                self.end_headers()
                self.wfile.write(content)

        def log_message(self, *arguments: Any) -> None: ...

    socketserver.BaseServer.handle_error = lambda *arguments: None  # type: ignore[method-assign]
    return Handler


def damaged(content: bytes, draw: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(draw.randrange(1, 4)):
        changed[draw.randrange(len(changed))] = draw.randrange(256)
    return bytes(changed)


def changed(listing: dict[str, Any], draw: random.Random) -> Any:
    """A list of files with another value somewhere."""
    sibling = draw.choice(listing["siblings"])
    place, key = draw.choice(
        (
            (listing, "sha"),
            (listing, "siblings"),
            (sibling, "rfilename"),
            (sibling, "lfs"),
            (sibling["lfs"], "size"),
            (sibling["lfs"], "sha256"),
        )
    )
    place[key] = draw.choice(VALUES)
    return draw.choice((listing, listing, listing, [listing], sibling))
