"""The explorer as a person starts it: a process, ready when it says so, gone when it is interrupted."""

from __future__ import annotations

import json
import os
import re
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from regard.cli.explore import find_models
from regard.inspect import built

READY = re.compile(r"explorer running at (http://127\.0\.0\.1:\d+/)(\S*)")


def wait_for_line(process: subprocess.Popen[str], seconds: float) -> str:
    """The first line that the process prints, or a failure after this long."""
    assert process.stdout is not None
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        assert selector.select(seconds), "the explorer said nothing"
    return process.stdout.readline()


@contextmanager
def running(*arguments: object) -> Iterator[tuple[subprocess.Popen[str], re.Match[str]]]:
    command = [sys.executable, "-m", "regard", "explore", "--no-browser", "--port", "0", *map(str, arguments)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    environment.pop("REGARD_MODEL", None)
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            line = wait_for_line(process, 300)
            found = READY.match(line)
            assert found, line + str(process.stderr.read() if process.stderr and not line else "")
            yield process, found
        finally:
            if process.poll() is None:
                process.kill()


def test_from_start_to_ctrl_c(make_model: Any, tmp_path: Path) -> None:
    model = make_model(tmp_path / "runs" / "first" / "model")
    with running("--runs", tmp_path / "runs", "the cat?") as (process, ready):
        assert ready[2] == "#overview?text=the%20cat%3F"
        with urllib.request.urlopen(f"{ready[1]}api/models", timeout=60) as reply:
            assert json.load(reply)["models"][-1]["name"] == "first"  # after those that come with Regard
        body = json.dumps({"text": "the cat", "options": {"beam": 2}}).encode()
        request = urllib.request.Request(f"{ready[1]}api/translate", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as reply:
            assert json.load(reply)["alternatives"]
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0
    assert out == "explorer stopped\n"
    assert "Traceback" not in err
    assert model.is_dir()


def test_installed_models_come_first_and_of_those_the_one_that_reads_the_text(babble: Path, tmp_path: Path) -> None:
    trained = shutil.copytree(babble / "zh-en", tmp_path / "run" / "model")
    poet = shutil.copytree(babble / "zh-en", tmp_path / "poet" / "model") / "config.json"
    poet.write_text(json.dumps(json.loads(poet.read_text("utf-8")) | {"model": {"family": "gpt"}}), "utf-8")
    for text, first, second in (("我爱你", "zh-en", "en-zh"), ("hello", "en-zh", "zh-en"), (None, "zh-en", "en-zh")):
        assert find_models(tmp_path, text) == [babble / first, babble / second, trained]


@pytest.mark.usefixtures("nothing_installed")
def test_which_model(regard: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = regard("explore", "--runs", tmp_path, "--no-browser")
    assert said.code == 2
    assert f"no model found: none is installed and {tmp_path} has none" in said.err
    said = regard("explore", "--model", tmp_path / "nowhere", "--no-browser", "--port", 0)
    assert (said.code, said.out) == (4, "")
    assert f"there is no model folder at {tmp_path / 'nowhere'}" in said.err
    monkeypatch.setenv("REGARD_MODEL", str(tmp_path / "chosen"))
    assert find_models(tmp_path, "text") == [tmp_path / "chosen"]


def test_a_port_that_is_taken(regard: Any, make_model: Any, tmp_path: Path) -> None:
    model = make_model(tmp_path / "model")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        said = regard("explore", "--model", model, "--no-browser", "--port", taken.getsockname()[1])
    assert said.code == 2
    assert "choose another with --port" in said.err
    said = regard("explore", "--model", model, "--no-browser", "--port", 0, "--host", "nowhere.invalid")
    assert said.code == 2
    assert "cannot resolve the address nowhere.invalid" in said.err


def test_without_a_page_the_api_is_served(
    regard: Any, make_model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(built, "PAGE", tmp_path / "nowhere")
    model = make_model(tmp_path / "model")
    with socket.create_server(("127.0.0.1", 0)) as taken:  # so that it ends at once
        said = regard("explore", "--model", model, "--no-browser", "--port", taken.getsockname()[1])
    first, second, third = said.err.splitlines()
    assert "python web/build.py" in first
    assert second == "Serving the API only."
    assert "choose another with --port" in third
