"""A training that was started from the page ends with the server, however that ends: real processes and signals."""

from __future__ import annotations

import http.client
import json
import os
import re
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest


@contextmanager
def explorer(model: Path, runs: Path, cache: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """The command as a process, and its port."""
    command = [sys.executable, "-m", "regard", "explore", "--no-browser", "--port", "0", "--runs", str(runs)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1", "REGARD_CACHE": str(cache)}
    with subprocess.Popen(
        [*command, "--model", str(model)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            assert process.stdout is not None
            found = re.search(r":(\d+)/", process.stdout.readline())
            assert found
            yield process, int(found[1])
        finally:
            if process.poll() is None:
                process.kill()


def ask(port: int, method: str, path: str, body: Any = None) -> Any:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request(method, path, json.dumps(body), {"Content-Type": "application/json"})
        return json.load(connection.getresponse())
    finally:
        connection.close()


def training_process(runs: Path) -> int | None:
    """The id of the process that trains in a folder of runs. One that has just been started has no command line yet."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has ended
            command = path.read_bytes()
            if b"toy_process" in command and os.fsencode(runs) in command:
                return int(path.parent.name)
    return None


def wait_for_end(process: int) -> None:
    """Of a process that is not our child."""
    try:
        handle = os.pidfd_open(process)
    except ProcessLookupError:
        return
    try:
        assert select.select([handle], [], [], 120)[0], "the training has not ended"
    finally:
        os.close(handle)


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="Linux tells which processes there are")
@pytest.mark.parametrize(
    ("number", "is_training"),
    [
        (signal.SIGTERM, False),
        (signal.SIGKILL, False),
        pytest.param(signal.SIGTERM, True, marks=pytest.mark.slow),
        pytest.param(signal.SIGHUP, False, marks=pytest.mark.slow),
        pytest.param(signal.SIGINT, False, marks=pytest.mark.slow),
        pytest.param(signal.SIGKILL, True, marks=pytest.mark.slow),
    ],
)
def test_a_training_ends_with_the_server(
    number: signal.Signals, is_training: bool, deep_model: Path, tmp_path: Path, new_cache: Any
) -> None:
    runs = tmp_path / "runs"
    runs.mkdir()
    with explorer(deep_model, runs, new_cache(tmp_path / "cache")) as (process, port):
        name = ask(port, "POST", "/api/toy", {"task": "copy", "seconds": 600})["run"]
        while (child := training_process(runs)) is None:
            assert ask(port, "GET", "/api/runs")["toy"]["running"]
        while is_training and not (rows := ask(port, "GET", f"/api/runs/{name}/metrics").get("rows")):
            assert ask(port, "GET", "/api/runs")["toy"]["running"]
        process.send_signal(number)
        out, err = process.communicate(timeout=120)
        wait_for_end(child)
    assert "Traceback" not in err
    if number == signal.SIGKILL:
        assert process.returncode == -signal.SIGKILL
    else:
        assert (process.returncode, out) == (0, "explorer stopped\n")
    if is_training:  # it has saved what it had learnt
        saved = sorted((runs / name / "checkpoints").iterdir())
        assert saved
        assert rows
        assert int(saved[-1].name.removeprefix("step-")) >= rows[0]["step"]
