"""A checkpoint says what computed it, and a run does not go on with anything else unless it is told to."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.errors import ConfigError, RunError
from regard.kernels import loader
from regard.kernels.compiler import find_compiler, fingerprint
from regard.kernels.training import TRAINING
from regard.model_folder.checked_json import checked, read_checked
from regard.train.arithmetic import NO_KERNELS, Arithmetic, arithmetic_of, why_no_kernels
from regard.train.checkpoint import load_checkpoint
from regard.train.launch import resume, start
from regard.train.run_folder import RunFolder

SHORT = "train.max_steps=4"


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path / "run")


@contextmanager
def without_kernels(how: str, scratch: Path) -> Iterator[str]:
    """A process that cannot have the kernels; gives what it says of the reason."""
    with pytest.MonkeyPatch.context() as patch:
        match how:
            case "switched off":
                patch.setenv("REGARD_NATIVE", "0")
                reason = "REGARD_NATIVE is 0"
            case "no compiler":
                patch.setenv("PATH", str(scratch))
                patch.delenv("CXX", raising=False)
                reason = "they need a C++ compiler"
            case "full disk":  # as g++ says it
                compiler = scratch / "g++"
                compiler.write_text(
                    "#!/bin/sh\necho 'fatal error: error writing: No space left on device' >&2\nexit 1\n"
                )
                compiler.chmod(0o755)
                patch.setenv("CXX", str(compiler))
                reason = "No space left on device"
            case _:
                raise AssertionError(how)
        loader.library.cache_clear()
        try:
            yield reason
        finally:
            loader.library.cache_clear()


HOW = ("switched off", "no compiler", "full disk")


def test_a_checkpoint_records_what_computed_it(toy_run: Any, folder: RunFolder, heard: Any) -> None:
    run = toy_run(SHORT, "train.ema=0.9")
    start(run, folder, heard)
    found = load_checkpoint(folder.checkpoint(4)).arithmetic
    assert found == arithmetic_of(run.train)
    native = loader.library(TRAINING)
    assert native is not None
    assert found is not None
    assert (found.precision, found.threads, found.torch) == ("float32", 1, torch.__version__)
    assert found.kernels == fingerprint(TRAINING, find_compiler())
    assert found.cpu
    assert found.instruction_set.startswith(torch.backends.cpu.get_cpu_capability())


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("precision", ["int8", "float32"])
def test_without_its_kernels_a_run_does_not_go_on_silently(
    toy_run: Any, folder: RunFolder, heard: Any, tmp_path: Path, contents: Any, how: str, precision: str
) -> None:
    start(toy_run(SHORT, f"train.precision={precision}"), folder, heard)
    before = contents(folder.path)
    with without_kernels(how, tmp_path) as reason, pytest.raises(RunError) as caught:
        resume(toy_run(f"train.precision={precision}"), folder, heard)
    said = str(caught.value)
    build = load_checkpoint(folder.checkpoint(4)).arithmetic
    assert f"kernels: {build.kernels if build else ''} → none" in said
    assert reason in said
    assert "add --allow-different-arithmetic to go on" in said
    assert contents(folder.path) == before


@pytest.mark.parametrize("how", HOW)
def test_a_new_run_without_kernels_says_so(
    toy_run: Any, folder: RunFolder, heard: Any, tmp_path: Path, how: str
) -> None:
    """Also where precision = "auto" would have chosen int8."""
    with without_kernels(how, tmp_path) as reason:
        start(toy_run(SHORT, "train.precision=auto"), folder, heard)
        [said] = [message for message in heard.messages if "C++ kernels" in message]
        assert said.startswith("the C++ kernels are not used, which is slower and rounds differently: ")
        assert reason in said
        assert reason in str(why_no_kernels())
        with pytest.raises(ConfigError, match=r"train\.precision = 'int8', but the C\+\+ kernels are not available"):
            start(toy_run(SHORT, "train.precision=int8"), RunFolder(tmp_path / "int8"), heard)
    found = load_checkpoint(folder.checkpoint(4)).arithmetic
    assert found is not None
    assert found.kernels == NO_KERNELS
    assert "int8" not in found.precision
    assert why_no_kernels() is None


def test_it_goes_on_when_told_to_and_reports_the_difference(
    toy_run: Any, folder: RunFolder, heard: Any, tmp_path: Path
) -> None:
    start(toy_run(SHORT), folder, heard)
    with without_kernels("switched off", tmp_path):
        resume(toy_run("train.max_steps=8"), folder, heard, allow_different_arithmetic=True)
        resume(toy_run("train.max_steps=9"), folder, heard)  # from here on nothing differs
    assert [message for message in heard.messages if message.startswith("different arithmetic: kernels: ")]
    found = load_checkpoint(folder.checkpoint(8)).arithmetic
    assert found is not None
    assert found.kernels == NO_KERNELS
    with pytest.raises(RunError, match="kernels: none → "):
        resume(toy_run(), folder, heard)


def test_every_difference_is_named(toy_run: Any, folder: RunFolder, heard: Any) -> None:
    start(toy_run(SHORT), folder, heard)
    state = folder.checkpoint(4) / "training/state.json"
    content, _ = read_checked(state)
    for name in (field.name for field in dataclasses.fields(Arithmetic)):
        other = 99 if name == "threads" else f"another {name}"
        state.write_bytes(checked({**content, "arithmetic": {**content["arithmetic"], name: other}}))
        with pytest.raises(RunError, match=f"\n  {name}: {other} → "):
            resume(toy_run(), folder, heard)


def test_a_setting_that_was_changed_is_no_silent_change(toy_run: Any, folder: RunFolder, heard: Any) -> None:
    start(toy_run(SHORT), folder, heard)
    resume(toy_run(SHORT, "train.precision=int8", "train.threads=2"), folder, heard)
    assert "different arithmetic: threads: 1 → 2" in heard.messages
    assert any(message.startswith("different arithmetic: precision: float32 → int8") for message in heard.messages)
    assert resume(toy_run("train.max_steps=6", "train.precision=float32", "train.threads=1"), folder, heard).step == 6


def test_another_number_of_cores_is_one(toy_run: Any, folder: RunFolder, heard: Any) -> None:
    """train.threads = 0 takes as many as there are."""
    start(toy_run(SHORT, "train.threads=0"), folder, heard)
    torch.set_num_threads(2)
    try:
        with pytest.raises(RunError, match="threads: 1 → 2"):
            resume(toy_run("train.threads=0"), folder, heard)
    finally:
        torch.set_num_threads(1)
    assert resume(toy_run("train.threads=0"), folder, heard).step == 12


def test_the_command(
    regard: Callable[..., Any], recipe: Path, folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["train", recipe, "--run", folder.path]
    code, _, errors = regard(*words, "--allow-different-arithmetic").wait()
    assert code == 2
    assert "--allow-different-arithmetic is for --resume" in errors
    assert regard(*words, "--set", SHORT).wait()[0] == 0
    state = folder.checkpoint(4) / "training/state.json"
    content, _ = read_checked(state)
    state.write_bytes(checked({**content, "arithmetic": {**content["arithmetic"], "cpu": "another"}}))
    code, _, errors = regard(*words, "--resume").wait()
    assert code == 5
    assert "\n  cpu: another → " in errors
    code, out, errors = regard(*words, "--resume", "--allow-different-arithmetic").wait()
    assert (code, errors) == (0, "")
    assert "different arithmetic: cpu: another → " in out
