"""Runs as they may be found: half-written, without reports, removed while somebody looks."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.inspect.wire import unpack
from regard.serve.http_error import HttpError
from regard.serve.metrics import MAX_BYTES, last_step, read_rows
from regard.serve.responses import Run
from regard.serve.runs import RunFolders, probe_pairs, thinned
from regard.train.probes import Probe, ProbeHistory, ProbeOutput, Snapshot, encode
from regard.train.run_folder import RunFolder


def make_run(folder: Path, name: str, *rows: object) -> RunFolder:
    path = folder / name
    path.mkdir()
    (path / "config.json").write_text("{}")
    (path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return RunFolder(path)


def history(*steps: int) -> ProbeHistory:
    """What a run with one probe might have recorded; the first weight tells the step."""
    moments = []
    for step in steps:
        weights_HLM = np.array([[[step % 256, 0]]], np.uint8)
        moments.append(Snapshot(step, (ProbeOutput(("b",), (0.5,)),), ({"decoder.0.cross.weights": weights_HLM},)))
    return ProbeHistory((Probe("a", ("▁a", "</s>")),), tuple(moments))


def test_what_is_no_run_is_not_listed(tmp_path: Path) -> None:
    assert RunFolders(tmp_path / "nowhere").describe_all() == ()
    (tmp_path / "a file").write_text("")
    (tmp_path / "a folder").mkdir()
    make_run(tmp_path, "run")
    assert RunFolders(tmp_path).describe_all() == (
        Run("run", step=0, live=False, model=False, checkpoints=(), recorded=False),
    )


def test_a_run_is_training_while_somebody_trains_in_it(tmp_path: Path) -> None:
    run = make_run(tmp_path, "run", {"kind": "step", "step": 5})
    with run.locked():
        assert RunFolders(tmp_path).describe_all()[0].live
        assert run.is_training()
    assert not run.is_training()
    with run.locked():  # looking does not hinder the next training
        pass
    assert not RunFolder(tmp_path / "nowhere").is_training()


def test_the_last_whole_report(tmp_path: Path) -> None:
    run = make_run(tmp_path, "run", {"kind": "step", "step": 5}, {"kind": "validation", "step": 10})
    assert last_step(run.metrics) == 10
    with run.metrics.open("a") as file:
        file.write('{"step": 15, "lo')
    assert last_step(run.metrics) == 10
    run.metrics.write_text("x" * 300_000 + "\n" + json.dumps({"kind": "step", "step": 20}) + "\n[]\n")
    assert last_step(run.metrics) == 20
    assert last_step(tmp_path / "nowhere") == 0
    assert last_step(Path("/proc/self/mem")) == 0, "a file that cannot be read"


ROW = {"kind": "step", "step": 5, "loss": 1.5}
DAMAGED = [
    *["", "nonsense", "[]", "5", "null", '{"kind": "step"', "[" * 100_000, '{"kind": "step", "step": 1e999}'],
    *[json.dumps(ROW | {"more": 1})[:-1] + ', "deep": ' + "[" * depth + "]" * depth + "}" for depth in (600, 990)],
    *(
        json.dumps(ROW | changed)
        for changed in (
            *({"step": "5"}, {"step": True}, {"step": -1}, {"step": 2**60}, {"step": None}, {"step": [5]}),
            *({"kind": "other"}, {"kind": ["step"]}, {"kind": None}, {"loss": "low"}, {"loss": [1]}, {"lr": True}),
            *({"samples": 5}, {"samples": "ab"}, {"samples": [5]}, {"samples": {"source": "a"}}),
            *({"samples": [{"source": "a"}]}, {"samples": [{"source": "a", "reference": 5, "output": "b"}]}),
            {"x": "y" * 1_100_000},
        )
    ),
]


def test_a_damaged_metrics_file_gives_the_rows_that_are_whole(
    serve: Any, deep_model: Path, page: Path, tmp_path: Path
) -> None:
    sample = {"source": "\ud800", "reference": "a", "output": "b"}
    whole = [ROW, {"kind": "validation", "step": 6, "nll": float("nan"), "bleu": None, "samples": [sample]}]
    for number, damage in enumerate(DAMAGED):
        run = make_run(tmp_path, f"run-{number}", whole[0])
        with run.metrics.open("a", encoding="utf-8") as file:
            file.write(f"{damage}\n{json.dumps(whole[1])}\n")
    os.mkfifo(make_run(tmp_path, "pipe").path / "pipe")
    os.replace(tmp_path / "pipe" / "pipe", tmp_path / "pipe" / "metrics.jsonl")  # opening it would block
    (tmp_path / os.fsdecode(b"\xff")).mkdir()
    (tmp_path / os.fsdecode(b"\xff") / "config.json").write_text("{}")
    with serve([deep_model], tmp_path, page) as client:
        runs = client.get("/api/runs").json["runs"]
        assert {run["name"] for run in runs} >= {"pipe", "\udcff"}
        assert {run["step"] for run in runs} == {0, 6}
        for number, damage in enumerate(DAMAGED):
            reply = client.get(f"/api/runs/run-{number}/metrics")
            assert reply.status == 200, damage[:100]
            assert reply.json["rows"] == [ROW, whole[1] | {"nll": None}], damage[:100]
            assert client.get(f"/api/runs/run-{number}/probes").status == 404
        assert client.get("/api/runs/pipe/metrics").json["rows"] == []


def test_only_the_end_of_very_long_metrics_is_read(tmp_path: Path) -> None:
    run = make_run(tmp_path, "run", *({"kind": "step", "step": step} for step in range(1000)))
    assert [row["step"] for row in read_rows(run.metrics)] == list(range(1000))
    with run.metrics.open("r+b") as file:  # a hole of the size that is left out
        content = file.read()
        file.seek(MAX_BYTES)
        file.write(b"\n" + content)
    assert [row["step"] for row in read_rows(run.metrics)] == list(range(1000))


def test_rows_that_came_after_a_step(tmp_path: Path) -> None:
    steps = {"kind": "step", "step": 5, "loss": float("nan")}, {"kind": "step", "step": 10}
    make_run(tmp_path, "run", *steps, {"step": 10, "kind": "validation"})
    assert [row["step"] for row in RunFolders(tmp_path).metrics("run", 5)] == [10, 10]
    with pytest.raises(HttpError, match="there is no run"):
        RunFolders(tmp_path).metrics("../run", 0)


def test_a_run_without_anything_to_show(tmp_path: Path) -> None:
    make_run(tmp_path, "run", {"step": 5})
    with pytest.raises(HttpError, match="has no attention history yet") as refusal:
        RunFolders(tmp_path).attention_history("run", -1)
    assert refusal.value.status == 404


def test_a_run_of_a_model_without_attention(tmp_path: Path, random_model: Any) -> None:
    sample = {"source": "apple", "reference": "baby", "output": ""}
    run = make_run(tmp_path, "run", {"kind": "validation", "step": 5, "samples": [sample]})
    run.checkpoint(5).parent.mkdir()
    random_model(family="recurrent", attention="none").rename(run.checkpoint(5))
    runs = RunFolders(tmp_path)
    for _ in range(2):
        with pytest.raises(HttpError, match="has no attention history yet"):
            runs.attention_history("run", -1)
    assert unpack(runs.attention_history("run", 5))[0]["snapshots"] == []


def test_the_attention_history_that_a_run_recorded(tmp_path: Path) -> None:
    run = make_run(tmp_path, "run")
    whole = history(*range(0, 400, 10))
    run.probes.write_bytes(encode(whole))
    header, maps = unpack(RunFolders(tmp_path).attention_history("run", -1))
    steps = [one["step"] for one in header["snapshots"]]
    assert (header["name"], header["forced"]) == ("run", False)
    assert header["probes"] == [{"text": "a", "src": ["▁a", "</s>"]}]
    assert (len(steps), steps[0], steps[-1]) == (16, 0, 390)
    assert header["snapshots"][-1]["written"] == [{"tgt": ["b"], "probabilities": [0.5]}]
    assert maps["390/0/decoder.0.cross.weights"].tolist() == [[[390 % 256, 0]]]
    later, maps = unpack(RunFolders(tmp_path).attention_history("run", 380))
    assert ([one["step"] for one in later["snapshots"]], len(maps)) == ([390], 1)
    assert RunFolders(tmp_path).describe_all()[0].recorded


def test_the_attention_history_ends_with_the_model_where_there_is_one(tmp_path: Path) -> None:
    run = make_run(tmp_path, "run")
    run.model.mkdir()
    run.probes.write_bytes(encode(history(0, 5)))
    (run.model / "probes.safetensors").write_bytes(encode(history(0, 5, 8)))
    assert [one["step"] for one in unpack(RunFolders(tmp_path).attention_history("run", -1))[0]["snapshots"]] == [
        0,
        5,
        8,
    ]
    run.probes.write_bytes(encode(history(0, 5, 9)))  # it was resumed
    assert [one["step"] for one in unpack(RunFolders(tmp_path).attention_history("run", -1))[0]["snapshots"]] == [
        0,
        5,
        9,
    ]


def test_probes_are_sentences_of_a_length_that_can_be_drawn() -> None:
    short, long = {"source": "a", "reference": "b"}, {"source": "a" * 999, "reference": "b"}
    rows = [{"step": 1}, {"step": 2, "samples": []}, {"step": 3, "samples": [long, short, short, short, short]}]
    assert probe_pairs(rows) == [("a", "b")] * 3
    assert probe_pairs(rows[:2]) == []


def test_a_long_training_is_thinned() -> None:
    steps = list(range(0, 1000, 10))
    few = thinned(steps, 7)
    assert (len(few), few[0], few[-1]) == (7, 0, 990)
    assert thinned(steps[:5], 7) == steps[:5]


def test_a_checkpoint_that_has_been_removed(tmp_path: Path) -> None:
    run = make_run(tmp_path, "run", {"step": 5})
    runs = RunFolders(tmp_path)
    assert runs.snapshot(run, 5, [("apple", "baby")]) is None
    assert not runs.snapshots, "it may be there the next time"
