"""A run can be cut off at any moment, and ends, bit for bit, where an unbroken one ends."""

from __future__ import annotations

import json
import os
import random
import select
import shlex
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from regard.model_folder.checked_json import checked
from regard.train.checkpoint import STATE, SUMS, find_damage, load_checkpoint
from regard.train.launch import resume, start
from regard.train.resume import has_former_files
from regard.train.run_folder import RunFolder

# Everything that could be forgotten between two processes is on.
ALL_ON = (
    "data.tokenizer.dropout=0.2",
    "model.dropout=0.2",
    "model.attention_dropout=0.1",
    "train.ema=0.9",
    "train.gradient_accumulation_steps=2",
    "train.max_steps=72",
    "train.validate_every=12",
    "train.checkpoint_every=4",
    "train.log_every=3",
    "train.probes=['a b c', 'c b']",
)
CLOCK = {"seconds", "seconds_left", "tokens_per_second"}

Contents = Callable[[Path], dict[str, bytes]]


def arguments(recipe: Path, folder: RunFolder, settings: tuple[str, ...] = ALL_ON) -> list[object]:
    changed = [word for setting in settings for word in ("--set", setting)]
    again = ["--resume"] if folder.config.exists() else []
    return ["train", recipe, "--run", folder.path, *changed, *again]


def without_clock(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: without_clock(value) for key, value in tree.items() if key not in CLOCK}
    return tree


def everything(folder: RunFolder, contents: Contents) -> dict[str, Any]:
    """All that is in a run's folder, but for what a clock has said."""
    found: dict[str, Any] = dict(contents(folder.path))
    for name in found:
        if name.endswith("state.json"):
            found[name] = without_clock(json.loads(found[name]))
            found[name].pop("interruptions")
            found[name].pop("sha256")  # of the clock, too
    found["metrics.jsonl"] = [without_clock(json.loads(line)) for line in found["metrics.jsonl"].splitlines()]
    return found


def same(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert one.keys() == other.keys()
    assert [name for name in one if one[name] != other[name]] == []


def says(child: Any) -> bool:
    """Whether there is a line to read, or the end."""
    return bool(select.select([child.out], [], [], 0)[0])


def go_a_little_further(child: Any, looks: int) -> None:
    """Let it work while we look `looks` times whether it has come to the next line."""
    child.let_go()
    while looks and not says(child):
        looks -= 1


def stop_while_it_writes(child: Any, folder: RunFolder) -> None:
    """Let it work until it is in the midst of writing a checkpoint, and hold it there."""

    def writing() -> bool:
        return any(folder.checkpoints.glob(".tmp-*"))

    child.let_go()
    while True:
        if says(child):
            assert child.out.readline(), "it ended before it wrote a checkpoint"
            child.let_go()
        if writing():
            child.send(signal.SIGSTOP)
            os.waitpid(child.pid, os.WUNTRACED)
            if writing():
                return
            child.send(signal.SIGCONT)


@pytest.mark.parametrize("kills", [5, pytest.param(10, marks=pytest.mark.slow)])
def test_a_run_killed_several_times_ends_where_an_uninterrupted_run_ends(
    kills: int, regard: Any, recipe: Path, tmp_path: Path, contents: Contents
) -> None:
    unbroken, broken = RunFolder(tmp_path / "unbroken"), RunFolder(tmp_path / "broken")
    code, _, errors = regard(*arguments(recipe, unbroken)).wait()
    assert (code, errors) == (0, "")

    draw = random.Random(2017)
    cut_off_at = []
    for number in range(kills):
        child = regard(*arguments(recipe, broken))
        for _ in range(draw.randint(1, 7)):
            child.line()
        if number % 3 == 1:
            go_a_little_further(child, draw.randrange(1, 3000))
        elif number % 3 == 2:
            stop_while_it_writes(child, broken)
        assert child.kill() == -signal.SIGKILL
        assert any(broken.checkpoints.glob(".tmp-*")) or number % 3 != 2
        assert not broken.model.exists()
        cut_off_at.append(max(broken.saved_steps(), default=0))
    assert len({*cut_off_at}) > kills // 3  # there was progress in between

    code, _, errors = regard(*arguments(recipe, broken)).wait()
    assert (code, errors) == (0, "")
    one, other = everything(unbroken, contents), everything(broken, contents)
    steps = [row["step"] for row in other["metrics.jsonl"] if row["kind"] == "step"]
    assert steps == list(range(3, 73, 3))
    assert one["checkpoints/step-00000072/training/weights.safetensors"] != one["model/weights.safetensors"]
    same(one, other)


def test_ctrl_c_finishes_the_step_saves_and_says_how_to_go_on(
    regard: Any, recipe: Path, tmp_path: Path, contents: Contents
) -> None:
    settings = ("train.max_steps=24", "train.validate_every=8", "train.log_every=4", "model.dropout=0.2")
    unbroken, broken = RunFolder(tmp_path / "unbroken"), RunFolder(tmp_path / "broken")
    assert regard(*arguments(recipe, unbroken, settings)).wait()[0] == 0
    words_to_go_on: list[object] = arguments(recipe, broken, settings)
    for number, words in ((signal.SIGINT, "step       4"), (signal.SIGTERM, "step      12")):
        child = regard(*words_to_go_on)
        child.wait_for(words)
        child.send(number)
        code, out, errors = child.wait()
        assert (code, errors) == (130, "")
        saved = broken.saved_steps()[-1]
        told = out.splitlines()
        assert told[0] == "stopping after this step; press Ctrl-C again to stop at once"
        assert told[-2] == f"interrupted at step {saved}; the run is in {broken.path}"
        assert told[-1].startswith("resume with: regard train ")
        words_to_go_on = [*shlex.split(told[-1].removeprefix("resume with: regard "))]
        assert saved % 8 != 0
        assert not broken.model.exists()
    assert len(broken.saved_steps()) == 2  # the last step, and step 8: the first interruption is over
    assert regard(*words_to_go_on).wait()[0] == 0
    same(everything(unbroken, contents), everything(broken, contents))


def test_a_second_ctrl_c_stops_at_once(regard: Any, recipe: Path, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    child = regard(*arguments(recipe, folder, ("train.max_steps=100000", "train.validate_every=100000")))
    child.wait_for("step       3")
    child.send(signal.SIGINT)
    child.wait_for("press Ctrl-C again to stop at once")  # the step is not over: it waits for us to read on
    child.send(signal.SIGINT)
    code, out, errors = child.wait()
    assert (code, out, errors.strip()) == (130, "", "interrupted")
    assert folder.saved_steps() == []
    assert [row["step"] for row in folder.read_metrics()] == [1, 2, 3]


def test_incomplete_files_of_a_kill_are_ignored_and_deleted(
    regard: Any, recipe: Path, tmp_path: Path, contents: Contents
) -> None:
    whole, folder = RunFolder(tmp_path / "whole"), RunFolder(tmp_path / "run")
    assert regard(*arguments(recipe, whole, ())).wait()[0] == 0
    assert regard(*arguments(recipe, folder, ("train.max_steps=8",))).wait()[0] == 0
    half = folder.checkpoints / ".tmp-step-00000012-99"
    half.mkdir()
    (half / "weights.safetensors").write_bytes(b"half")
    (folder.path / ".tmp-config.json-99").write_bytes(b"{")
    folder.model.rename(folder.path / ".replaced-model")  # killed between the two renames of a replacement
    with folder.metrics.open("a") as file:
        file.write('{"kind": "step", "step": 9, "epo')
    code, out, errors = regard(*arguments(recipe, folder, ())).wait()
    assert (code, errors) == (0, "")
    assert "resumed at step 8" in out
    same(everything(whole, contents), everything(folder, contents))


@pytest.mark.parametrize("precision", ["bfloat16", "int8"])
def test_two_threads_resume_exactly(precision: str, toy_run: Any, tmp_path: Path, heard: Any) -> None:
    """As people train: bf16 or int8, both cores, subword sampling, dropout, R-Drop that begins on the way."""
    how = (
        *(f"train.precision={precision}", "train.threads=2", "data.tokenizer.dropout=0.2", "model.dropout=0.3"),
        *("train.r_drop=2.0", "train.r_drop_after=3", "model.d_model=64", "train.max_steps=8"),
        "train.valid_translations=0",
    )
    whole, broken = RunFolder(tmp_path / "whole"), RunFolder(tmp_path / "broken")
    start(toy_run(*how), whole, heard)
    start(toy_run(*how, "train.max_steps=5"), broken, heard)
    resume(toy_run(*how), broken, heard)
    ends = [(folder.checkpoint(8) / "weights.safetensors").read_bytes() for folder in (whole, broken)]
    assert ends[0] == ends[1]


def test_a_checkpoint_of_version_0_1_is_read(toy_run: Any, tmp_path: Path, heard: Any) -> None:
    """Its position in the data was called place; its state has no checksum and does not say what computed it."""
    folder = RunFolder(tmp_path / "run")
    start(toy_run("train.max_steps=4"), folder, heard)
    state = folder.checkpoint(4) / "training" / "state.json"
    now = load_checkpoint(folder.checkpoint(4))
    stored = json.loads(state.read_text("utf-8"))
    stored["place"] = stored.pop("position")
    del stored["sha256"], stored["arithmetic"]
    state.write_text(json.dumps(stored), "utf-8")
    assert load_checkpoint(folder.checkpoint(4)).progress == now.progress
    resume(toy_run(), folder, heard)
    assert sum("did not record what computed it" in message for message in heard.messages) == 1
    assert load_checkpoint(folder.checkpoint(12)).arithmetic == now.arithmetic


def test_files_of_version_0_1_that_are_gone_count_as_changed(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("abc")
    status = text.stat()
    entry = [str(text), 3, status.st_mtime_ns]
    assert has_former_files({"file": entry})
    assert has_former_files({"files": [entry, entry]})
    assert not has_former_files({"files": [entry, [str(text), 4, status.st_mtime_ns]]})
    text.unlink()
    for known in ({"file": entry}, {"files": 3}, {"files": [[str(tmp_path)]]}, ["files"]):
        assert not has_former_files(known)


def test_a_state_that_is_not_the_one_that_was_written(toy_run: Any, tmp_path: Path, heard: Any) -> None:
    folder = RunFolder(tmp_path / "run")
    start(toy_run("train.max_steps=2", "train.average_checkpoints=1"), folder, heard)
    checkpoint = folder.checkpoint(2)
    state = checkpoint / "training" / "state.json"
    stored = json.loads(state.read_text("utf-8"))
    del stored["sha256"]
    assert find_damage(checkpoint) is None

    def damage(**changes: Any) -> str | None:
        state.write_bytes(checked({**stored, **changes}))
        return find_damage(checkpoint)

    sums = stored[SUMS]
    assert damage() is None
    assert damage(step=3) == f"{state} is damaged: it is of step 3, unlike its folder"
    assert damage(**{SUMS: []}) == f"{checkpoint} is damaged: the checksums of its files are not a table"
    first = next(iter(sums))
    fewer = {name: checksum for name, checksum in sums.items() if name != first}
    assert damage(**{SUMS: fewer}) == f"{state.parent} is damaged: its files are not those that {STATE} lists"
    state.write_text(json.dumps(stored), "utf-8")
    assert find_damage(checkpoint) == f"{state} was altered or damaged: its checksum is missing"
