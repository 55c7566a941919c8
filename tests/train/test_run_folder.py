"""A run's folder: what counts as a checkpoint, and metrics that a kill may have cut off."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from regard.config import RunConfig
from regard.errors import RunError
from regard.model_folder.checked_json import DamagedFileError
from regard.train.run_folder import RunFolder


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    folder = RunFolder(tmp_path / "a run 运行")
    with folder.created(RunConfig()):
        return folder


def test_only_checkpoints_count_as_checkpoints(folder: RunFolder) -> None:
    for name in ("step-foo", "step-", "step-00000003.bak", "step-7", ".tmp-step-00000009-1", "notes"):
        (folder.checkpoints / name).mkdir()
    assert folder.saved_steps() == []
    for step in (12, 3, 123_456_789):
        folder.checkpoint(step).mkdir()
    assert folder.saved_steps() == [3, 12, 123_456_789]
    folder.keep_only({12})
    assert folder.saved_steps() == [12]
    assert (folder.checkpoints / "step-foo").exists()
    assert not folder.checkpoint(3).exists()


def test_a_folder_without_checkpoints_has_none(tmp_path: Path) -> None:
    assert RunFolder(tmp_path / "none").saved_steps() == []
    assert RunFolder(tmp_path / "none").read_metrics() == []


def test_the_settings_come_back(folder: RunFolder) -> None:
    assert folder.read_config() == RunConfig()
    with pytest.raises(RunError, match="already holds a run"), folder.created(RunConfig()):
        pass


def test_cleaning(folder: RunFolder) -> None:
    (folder.path / ".tmp-config.json-1").write_text("half")
    (folder.checkpoints / ".tmp-step-00000001-1").mkdir()
    (folder.checkpoints / ".tmp-step-00000001-1" / "weights.safetensors").write_text("half")
    folder.checkpoint(2).mkdir()
    folder.clean()
    assert sorted(p.name for p in folder.path.rglob("*")) == ["checkpoints", "config.json", "step-00000002"]


def test_a_new_run_removes_what_a_killed_one_left(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    folder.path.mkdir()
    (folder.path / ".tmp-config.json-1").write_text("half")  # before the settings had their name
    with folder.created(RunConfig()):
        assert sorted(path.name for path in folder.path.iterdir()) == ["checkpoints", "config.json"]


def test_of_two_runs_that_begin_at_once_one_is_refused(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    folder.path.mkdir()
    with folder.locked(), pytest.raises(RunError, match="another process is training"), folder.created(RunConfig()):
        pass
    assert not folder.config.exists()  # the settings of the other run are not replaced


def test_metrics(folder: RunFolder) -> None:
    for step in (1, 2, 3):
        folder.append_metrics({"kind": "step", "step": step, "text": "我"})
    whole = folder.metrics.read_bytes()
    lines = whole.splitlines(keepends=True)
    for cut in range(len(whole)):
        folder.metrics.write_bytes(whole[:cut])
        count = sum(len(b"".join(lines[: n + 1]).rstrip()) <= cut for n in range(3))
        assert [row["step"] for row in folder.read_metrics()] == [1, 2, 3][:count]
    folder.metrics.write_bytes(whole[:-4])
    folder.drop_metrics_after(1)
    assert folder.metrics.read_bytes() == lines[0]


def test_metrics_that_cannot_be_written(folder: RunFolder) -> None:
    folder.metrics.mkdir()
    with pytest.raises(RunError, match=r"metrics\.jsonl could not be written"):
        folder.append_metrics({"step": 1})


@pytest.mark.parametrize("below", [".", "run", "runs/run"])
def test_a_file_is_not_a_run_folder(tmp_path: Path, below: str) -> None:
    (tmp_path / "file").write_text("mine")
    folder = RunFolder(tmp_path / "file" / below)
    with pytest.raises(RunError) as caught:
        folder.check_free()
    assert str(caught.value).startswith(
        f"{folder.path} cannot be used as a run folder: {tmp_path / 'file'} is not a folder. Choose another"
    )


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_write_permission(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o555)
    with pytest.raises(RunError, match=f"you have no permission to write to {tmp_path / 'closed'}"):
        RunFolder(tmp_path / "closed" / "run").check_free()


def test_metrics_of_somebody_else_are_left_out(folder: RunFolder) -> None:
    report = {"kind": "step", "step": 3}
    foreign = [5, "text", None, [1], {"loss": 1.0}, {"step": 1}, {"kind": "step"}, {"kind": "step", "step": "1"}]
    folder.metrics.write_text("".join(json.dumps(row) + "\n" for row in [*foreign, report]))
    assert folder.read_metrics() == [report]
    folder.drop_metrics_after(2)
    assert folder.read_metrics() == []


def test_fingerprints_without_their_checksum(folder: RunFolder) -> None:
    assert folder.read_corpora() == {}
    folder.corpora.write_text('{"train": []}', "utf-8")
    with pytest.raises(DamagedFileError, match=r"corpora\.json was altered or damaged: its checksum is missing"):
        folder.read_corpora()
    folder.corpora.write_text("[" * 100_000, "utf-8")
    with pytest.raises(DamagedFileError, match=r"corpora\.json "):
        folder.read_corpora()
