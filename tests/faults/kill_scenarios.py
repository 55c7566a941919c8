"""The commands that `kill_matrix.py` kills, what they work on, and a server on loopback for those that download."""

from __future__ import annotations

import hashlib
import http.server
import json
import os
import random
import signal
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.data.published import published_corpora

RECIPE = """
[data]
src_lang = "en"
tgt_lang = "de"
[[data.train]]
toy = "copy"
size = 150
[[data.valid]]
toy = "copy"
size = 6
seed = 2
[data.tokenizer]
vocab_size = 300
[model]
d_model = 16
n_heads = 2
d_ff = 32
n_encoder_layers = 1
n_decoder_layers = 1
[train]
threads = 1
precision = "float32"
batch_tokens = 256
max_steps = 12
lr = 3e-3
warmup_steps = 4
log_every = 1
validate_every = 4
keep_checkpoints = 3
average_checkpoints = 3
valid_translations = 2
valid_samples = 0
"""
LEFTOVERS = ("cache/**.tmp-*",)  # deleted a day later: another process may be writing them


@dataclass(frozen=True)
class Scenario:
    name: str
    arguments: tuple[str, ...]
    needs: tuple[str, ...] = ()  # of the prepared folder
    outputs: tuple[str, ...] = ()  # a file or folder of this name is whole, or as it was before
    models: tuple[str, ...] = ()  # folders that must stay readable
    once: bool = False  # the output is not overwritten: an existing one ends the work
    when_done: tuple[int, ...] = (0,)  # exit codes of the command that runs again
    leftovers: tuple[str, ...] = LEFTOVERS  # what may stay


SCENARIOS = (
    Scenario("train", ("train", "toy.toml", "--run", "run"), ("toy.toml", "cache")),
    Scenario("prepare", ("train", "toy.toml", "--run", "run", "--set", "train.max_steps=1"), ("toy.toml",)),
    Scenario("average", ("average", "run", "-o", "averaged"), ("run",), ("averaged",), once=True),
    Scenario("export hf", ("export", "hf", "run/model", "-o", "exported"), ("run",), ("exported",), once=True),
    Scenario("export ct2", ("export", "ct2", "run/model", "-o", "ct2"), ("run",), ("ct2",), once=True),
    Scenario("import", ("import", "hf", "-o", "imported"), ("hf",), ("imported",), once=True),
    Scenario("data get", ("data", "get", "toy"), (), ("data/toy",)),
    Scenario(
        "models get",
        ("models", "get", "owner/name"),
        (),
        ("models/name",),
        once=True,
        leftovers=(*LEFTOVERS, "cache/downloads/*"),  # deleted a week later
    ),
    Scenario(
        "models remove",
        ("models", "remove", "installed"),
        ("models",),
        ("models/installed",),
        when_done=(0, 2),  # there is no such model
    ),
    Scenario(
        "evaluate",
        ("evaluate", "--model", "run/model", "--recipe", "toy.toml", "--outputs", "out.txt", "--beam", "1"),
        ("run", "toy.toml", "out.txt"),
        ("out.txt",),
    ),
    Scenario(
        "translate",
        ("translate", "in.txt", "--model", "run/model", "-o", "out.txt", "--beam", "1"),
        ("run", "in.txt", "out.txt"),
        ("out.txt",),
    ),
    Scenario(
        "shortlist",
        ("shortlist", "run/model", "--recipe", "toy.toml"),
        ("run", "toy.toml", "cache"),
        models=("run/model",),
    ),
    Scenario(
        "explain", ("explain", "a b", "--model", "run/model", "--svg", "map.svg"), ("run", "map.svg"), ("map.svg",)
    ),
)

COMMIT = "0123456789abcdef0123456789abcdef01234567"
PIECE = 1 << 12  # bytes that a download takes at once, so that it can be killed within a file


class Loopback:
    """A hub with one model, and the source of one corpus, in a process of its own: this one forks the commands."""

    def __init__(self, scratch: Path, model: Path) -> None:
        self.pages: dict[str, bytes] = {}
        with http.server.HTTPServer(("127.0.0.1", 0), handler(self.pages)) as server:
            self.url = f"http://127.0.0.1:{server.server_port}"
            self.add_model(model)
            self.add_corpus(scratch / "published.toml")
            self.process = os.fork()
            if not self.process:
                server.serve_forever()
        os.environ |= {"HF_ENDPOINT": self.url, "HF_HUB_OFFLINE": "0", "no_proxy": "127.0.0.1"}

    def add_model(self, folder: Path) -> None:
        siblings = []
        for path in sorted(folder.iterdir()):
            content = path.read_bytes()
            self.pages[f"/owner/name/resolve/{COMMIT}/{path.name}"] = content
            large = {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
            siblings.append({"rfilename": path.name, "lfs": large})
        listing = {"sha": COMMIT, "siblings": siblings}
        self.pages["/api/models/owner/name/revision/main?blobs=true"] = json.dumps(listing).encode()

    def add_corpus(self, table: Path) -> None:
        """Two files, in the table of the corpora that the commands read."""
        drawn = random.Random(1)
        lines = ['[[corpora]]\nname = "toy"\nabout = "a toy"\nsource = "here"\nlicence = "none"\nfiles = [']
        for name in ("train.txt.gz", "valid.txt.gz"):
            text = "".join(f"{drawn.random()} {drawn.random()}\n" for _ in range(3000)).encode()
            self.pages[f"/{name}.raw"] = text
            url, digest = f"{self.url}/{name}.raw", hashlib.sha256(text).hexdigest()
            lines.append(f'{{ name = "{name}", url = "{url}", size = {len(text)}, sha256 = "{digest}" }},')
        table.write_text("\n".join([*lines, "]\n"]))
        published_corpora.__defaults__ = (table,)

    def close(self) -> None:
        os.kill(self.process, signal.SIGKILL)
        os.waitpid(self.process, 0)


def handler(pages: dict[str, bytes]) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content, start = pages.get(self.path), 0
            if content is None:
                self.send_error(404)
                return
            if asked := self.headers.get("Range"):
                start = int(asked.removeprefix("bytes=").removesuffix("-"))
            self.send_response(206 if asked else 200)
            self.send_header("Content-Length", str(len(content) - start))
            if asked:
                self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
            self.end_headers()
            with suppress(OSError):  # the client was killed
                self.wfile.write(content[start:])

        def log_message(self, *arguments: Any) -> None: ...

    return Handler
