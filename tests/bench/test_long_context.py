"""The experiments of bench/long_context run, at sizes that say nothing, and are resumed."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

FOLDER = Path(__file__).parents[2] / "bench" / "long_context"
TWO = {  # of the settings of each: the base and another
    "duplication": ["full", "LSH-2"],
    "patterns": ["strided", "fixed"],
    "linformer_k": ["full", "k = 32"],
    "window_sizes": ["fixed", "growing"],
    "learned_spans": ["fixed", "price 2e-4"],
    "mqar": ["full", "lsh"],
}


@pytest.fixture(autouse=True)
def _folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(FOLDER)
    monkeypatch.delenv("REGARD_DATA", raising=False)
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)
    for path in FOLDER.glob("*.py"):
        sys.modules.pop(path.stem, None)


def test_every_experiment_is_here() -> None:
    shared = {"corpora", "experiment", "training"}
    assert {path.stem for path in FOLDER.glob("*.py")} - shared == TWO.keys()


@pytest.mark.parametrize("name", TWO)
def test_it_runs_and_is_resumed(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = tmp_path / "results.jsonl"
    command = ["--size", "toy", "--results", str(results), "--only", *TWO[name], "--seeds"]
    importlib.import_module(name).main([*command, "1"])
    (first, second) = results.read_text("utf-8").splitlines()
    assert json.loads(first)["setting"] == TWO[name][0]
    assert json.loads(second)["cpu_seconds"] >= 0
    table = capsys.readouterr().out.rpartition("|---|")[2]
    assert all(f"| {setting} | 1 |" in table for setting in TWO[name])
    importlib.import_module(name).main([*command, "1"])  # nothing is left to do
    assert len(results.read_text("utf-8").splitlines()) == 2
