"""A fuzzer of the explorer's server: requests made from its OpenAPI document, and raw malformed HTTP.

    python tests/faults/requests.py MODEL [MODEL ...] --count 10000

It starts `regard explore` as a process and checks, for every case: no status of 500 or above but 503, and an answer to
every whole request in time; and at the end: the server still translates, its memory has not grown, and its log has no
traceback. Case number i depends on the seed and on i only (and on the names of traces that the server has given):
`--only i` repeats it. The result is a line of JSON.
"""

from __future__ import annotations

import argparse
import collections
import http.client
import io
import json
import os
import random
import re
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from request_cases import Case, Generator  # beside this file

MEMORY_GROWTH = 96  # MB from the first quarter of the cases to the end; the cache of traces is still filling
OPEN_AT_ONCE = 200  # connections that are left half-open; more than the server keeps


# -- sending


def responses(content: bytes, method: str) -> Iterator[tuple[int, bytes]]:
    """Status and body of each response in what a connection has received."""

    class Received:
        def __init__(self, file: io.BytesIO) -> None:
            self.file = file

        def makefile(self, mode: str) -> io.BytesIO:
            return self.file

    file = io.BytesIO(content)
    file.close = lambda: None  # type: ignore[method-assign]
    while file.tell() < len(content):
        response = http.client.HTTPResponse(Received(file), method=method)  # type: ignore[arg-type]
        try:
            response.begin()
            yield response.status, response.read()
        except (http.client.HTTPException, ValueError, OSError):
            return


@dataclass
class Fuzzer:
    generator: Generator
    patience: float
    counts: collections.Counter[str] = field(default_factory=collections.Counter)
    faults: list[str] = field(default_factory=list)
    opened: list[tuple[int, Case, socket.socket]] = field(default_factory=list)  # answers may still come

    def run(self, number: int, seed: int) -> None:
        draw = random.Random(f"{seed}-{number}")
        case = self.generator.case(draw)
        connection = socket.create_connection(("127.0.0.1", self.generator.port), timeout=self.patience)
        with suppress(ConnectionError):
            connection.sendall(case.sent)
        leave = draw.random() < 0.1
        if not case.whole or leave:
            self.opened.append((number, case, connection))
            if len(self.opened) > OPEN_AT_ONCE:
                self.close(draw.randrange(len(self.opened)))
            return
        self.judge(number, case, self.read(number, connection), True)
        connection.close()

    def read(self, number: int, connection: socket.socket) -> bytes:
        received = bytearray()
        try:
            while part := connection.recv(1 << 16):
                received += part
        except ConnectionError:
            self.counts["reset"] += 1
        except TimeoutError:
            self.faults.append(
                f"case {number}: no end of the answer within {self.patience:g} s; came: {bytes(received[:200])!r}"
            )
        return bytes(received)

    def close(self, index: int) -> None:
        """Look at what has come to an open connection, and close it."""
        number, case, connection = self.opened.pop(index)
        connection.setblocking(False)
        received = bytearray()
        with suppress(BlockingIOError, ConnectionError):
            while part := connection.recv(1 << 16):
                received += part
        connection.close()
        self.judge(number, case, bytes(received), False)

    def judge(self, number: int, case: Case, received: bytes, whole: bool) -> None:
        found = list(responses(received, case.method))
        if whole and not found:
            self.counts["no answer"] += 1
            self.faults.append(f"case {number}: no answer to {case.sent[:200]!r}")
        for status, body in found:
            self.counts[str(status)] += 1
            if status >= 500 and status != 503:
                self.faults.append(f"case {number}: {status} {body[:300]!r} to {case.sent[:300]!r}")
            if b"Traceback" in body:
                self.faults.append(f"case {number}: a traceback in the answer to {case.sent[:300]!r}")
            if name := re.search(rb'"trace":"([0-9a-f]{24})"', body[:2000]):
                self.generator.traces = [*self.generator.traces[-20:], name[1].decode()]
        if not found:
            self.counts["left open"] += 1


def ask(port: int, method: str, path: str, body: Any = None, patience: float = 60) -> Any:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=patience)
    try:
        connection.request(
            method, path, None if body is None else json.dumps(body), {"Content-Type": "application/json"}
        )
        response = connection.getresponse()
        content = response.read()
        assert response.status == 200, content
        return json.loads(content)
    finally:
        connection.close()


# -- the server


def make_runs(folder: Path) -> None:
    """Runs as nobody has trained them."""
    row = '{"kind": "step", "step": 5, "loss": 1.5}'
    sample = '{"kind": "validation", "step": 6, "samples": [{"source": "\\ud800", "reference": 5, "output": null}]}'
    deep = '{"kind": "step", "step": 7, "more": ' + "[" * 900 + "]" * 900 + "}"
    for name, content in {
        "odd": [
            row,
            sample,
            "[]",
            "nonsense",
            '{"kind": ["step"], "step": 8}',
            '{"kind": "step", "step": 1e999}',
            "\x00",
        ],
        "deep": [row, deep, "[" * 100_000, '{"kind": "step", "step": 9, "loss": "high", "samples": 5}', row[:9]],
        os.fsdecode(b"\xff\xfe"): [row],
    }.items():
        run = folder / name
        run.mkdir()
        (run / "config.json").write_text("{")
        (run / "metrics.jsonl").write_text("\n".join(content), "utf-8")
        (run / "probes.safetensors").write_bytes(b"\xff" * 64)
        (run / "checkpoints" / "step-00000005").mkdir(parents=True)


@contextmanager
def server(models: list[Path], folder: Path) -> Iterator[tuple[subprocess.Popen[str], int, Path]]:
    """A process, its port and its log."""
    runs, log = folder / "runs", folder / "log"
    runs.mkdir()
    make_runs(runs)
    command = [sys.executable, "-P", "-m", "regard", "explore", "--no-browser", "--port", "0", "--runs", str(runs)]
    command += [part for model in models for part in ("--model", str(model))]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1"}
    with (
        log.open("w") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment) as process,
    ):
        assert process.stdout is not None
        try:
            with selectors.DefaultSelector() as selector:
                selector.register(process.stdout, selectors.EVENT_READ)
                assert selector.select(300), "the server said nothing"
            line = process.stdout.readline()
            found = re.search(r"http://127\.0\.0\.1:(\d+)/", line)
            assert found, line + log.read_text()
            yield process, int(found[1]), log
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


def memory(process: subprocess.Popen[str]) -> float:
    """Resident megabytes."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024  # type: ignore[index]


def fuzz(models: list[Path], cases: list[int], seed: int, patience: float, folder: Path) -> dict[str, Any]:
    with server(models, folder) as (process, port, log):
        fuzzer = Fuzzer(Generator(ask(port, "GET", "/api/openapi.json"), port), patience)
        question = {"text": "apple baby bird", "options": {"beam": 2}}
        before = [ask(port, "POST", "/api/translate", {**question, "model": str(i)}) for i in range(len(models))]
        early = 0.0
        for count, number in enumerate(cases):
            fuzzer.run(number, seed)
            if count % 50 == 0:
                ask(port, "GET", "/health", patience=patience)
            if count == len(cases) // 4:
                early = memory(process)
        while fuzzer.opened:
            fuzzer.close(0)
        after = [ask(port, "POST", "/api/translate", {**question, "model": str(i)}) for i in range(len(models))]
        late = memory(process)
    if after != before:
        fuzzer.faults.append("the translations are not those of before")
    if late - early > MEMORY_GROWTH:
        fuzzer.faults.append(f"memory has grown from {early:.0f} to {late:.0f} MB")
    if "Traceback" in log.read_text("utf-8", "replace"):
        fuzzer.faults.append(f"a traceback in the log: {log.read_text('utf-8', 'replace')[-3000:]}")
    if process.returncode != 0:
        fuzzer.faults.append(f"the server ended with {process.returncode}")
    megabytes = [round(early), round(late)]
    return {
        "cases": len(cases),
        "counts": dict(sorted(fuzzer.counts.items())),
        "MB": megabytes,
        "faults": fuzzer.faults,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Fuzz the explorer's server.")
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int)
    parser.add_argument("--patience", type=float, default=10.0, help="seconds for an answer")
    options = parser.parse_args()
    cases = list(range(options.count)) if options.only is None else [options.only]
    with tempfile.TemporaryDirectory() as folder:
        report = fuzz(options.models, cases, options.seed, options.patience, Path(folder))
    print(json.dumps(report))
    sys.exit(1 if report["faults"] else 0)


if __name__ == "__main__":
    main()
