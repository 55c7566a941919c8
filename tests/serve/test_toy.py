"""A real training in a child process, as short as may be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from regard.serve.toy import ToyTraining


def test_a_training_from_the_page(
    serve: Any, deep_model: Path, page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, new_cache: Any
) -> None:
    monkeypatch.setenv("REGARD_CACHE", str(new_cache(tmp_path / "cache")))
    runs = tmp_path / "runs"
    runs.mkdir()
    with serve([deep_model], runs, page) as client:
        assert client.post("/api/toy", {"task": "copy", "seconds": 5}).json == {"run": "toy-copy-1"}
        second = client.post("/api/toy", {"task": "copy", "seconds": 5})
        assert (second.status, second.json["error"]) == (409, "toy-copy-1 is still being trained")
        assert client.get("/api/runs").json["toy"] == {"run": "toy-copy-1", "running": True, "error": None}
        assert client.api.toy_training.child.wait(500) == 0
        state = client.get("/api/runs").json
        assert state["toy"] == {"run": "toy-copy-1", "running": False, "error": None}
        [run] = state["runs"]
        assert (run["name"], run["live"], run["model"]) == ("toy-copy-1", False, True)
        assert client.get("/api/runs/toy-copy-1/metrics").json["rows"]
        header, maps = client.get("/api/runs/toy-copy-1/probes").arrays()
        assert f"{header['snapshots'][0]['step']}/0/decoder.1.cross.weights" in maps
        models = client.get("/api/models").json["models"]
        assert [model["name"] for model in models] == ["deep", "toy-copy-1"]
        assert client.post("/api/translate", {"model": "1", "text": "apple"}).status == 200


def test_a_training_that_fails_says_why(
    serve: Any, deep_model: Path, page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "torch.py").write_text("raise SystemExit('nothing is imported from the current folder')")
    monkeypatch.chdir(tmp_path)
    runs = tmp_path / "runs"
    runs.write_text("not a folder")
    with serve([deep_model], runs, page) as client:
        assert client.post("/api/toy", {"task": "reverse", "seconds": 5}).status == 200
        assert client.api.toy_training.child.wait(500) != 0
        state = client.get("/api/runs").json
        assert state["runs"] == []
        assert state["toy"]["running"] is False
        assert "cannot be used as a run folder" in state["toy"]["error"]


def test_a_training_ends_with_the_server(serve: Any, deep_model: Path, page: Path, tmp_path: Path) -> None:
    with serve([deep_model], tmp_path, page) as client:
        client.post("/api/toy", {"seconds": 600})
        child = client.api.toy_training.child
        assert child.poll() is None
    assert child.poll() is not None


def test_a_run_that_is_there_keeps_its_name(tmp_path: Path) -> None:
    for number in (1, 2, 4):
        (tmp_path / f"toy-copy-{number}").mkdir()
    training = ToyTraining(tmp_path)
    assert (training.free_name("copy"), training.free_name("reverse")) == ("toy-copy-3", "toy-reverse-1")
    training.close()
