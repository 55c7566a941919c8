"""`regard train`: the command. What training itself does is tested in tests/train."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

RECIPE = """
[data]
src_lang = "en"
tgt_lang = "copy"
[[data.train]]
toy = "copy"
size = 200
[[data.valid]]
toy = "copy"
size = 4
seed = 2
[data.tokenizer]
vocab_size = 400
[model]
d_model = 16
n_heads = 2
d_ff = 16
n_encoder_layers = 1
n_decoder_layers = 1
[train]
max_steps = 6
batch_tokens = 300
precision = "float32"
threads = 1
log_every = 2
validate_every = 3
valid_samples = 2
"""


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, new_cache: Any) -> Path:
    monkeypatch.setenv("REGARD_CACHE", str(new_cache(tmp_path / "cache")))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.toml").write_text(RECIPE)
    return tmp_path / "small.toml"


def test_a_recipe_becomes_a_model(regard: Any, recipe: Path) -> None:
    said = regard("train", recipe)
    assert (said.code, said.err) == (0, "")
    lines = said.out.splitlines()
    assert [line.split()[1] for line in lines if line.startswith("step ") and " epoch " in line] == ["2", "4", "6"]
    assert [line.split()[3] for line in lines if line.startswith("validation at step ")] == ["3", "6"]
    assert sum(line.startswith("  → ") for line in lines) == 2 * 2
    assert lines[-2] == "finished at step 6; the run is in runs/small"
    assert lines[-1] == 'try it: regard translate "…" --model runs/small/model'
    assert regard("translate", "apple", "--model", "runs/small/model", "--beam", 1).code == 0
    metrics = [json.loads(line) for line in Path("runs/small/metrics.jsonl").read_text().splitlines()]
    assert {row["kind"] for row in metrics} == {"step", "validation"}


def test_settings_and_place_can_be_changed(regard: Any, recipe: Path) -> None:
    said = regard("train", recipe, "--set", "train.max_steps=2", "--set", "model.d_ff=24", "--run", "elsewhere")
    assert said.code == 0
    assert "finished at step 2; the run is in elsewhere" in said.out
    config = json.loads(Path("elsewhere/config.json").read_text())
    assert (config["train"]["max_steps"], config["model"]["d_ff"]) == (2, 24)
    assert not Path("runs").exists()


def test_a_run_is_not_trained_over(regard: Any, recipe: Path) -> None:
    assert regard("train", recipe, "--set", "train.max_steps=2").code == 0
    said = regard("train", recipe)
    assert said.code == 5
    assert "--resume" in said.err
    said = regard("train", recipe, "--resume")
    assert said.code == 0
    assert "changed: train.max_steps: 2 → 6" in said.out
    assert "resumed at step 2" in said.out
    assert "finished at step 6" in said.out


@pytest.mark.parametrize(
    ("arguments", "said_of"),
    [
        (["nowhere.toml"], "there is no recipe at nowhere.toml"),
        (["small.toml", "--set", "train.max_step=3"], "did you mean 'max_steps'"),
        (["small.toml", "--set", "nonsense"], "key=value"),
        (["small.toml", "--set", "train.lr=fast"], "must be a number"),
    ],
)
def test_a_recipe_or_setting_that_is_wrong(regard: Any, recipe: Path, arguments: list[str], said_of: str) -> None:
    said = regard("train", *arguments)
    assert (said.code, said.out) == (2, "")
    assert said_of in said.err
    assert not Path("runs").exists()


def test_a_new_run_has_no_arithmetic_to_differ_from(regard: Any, recipe: Path) -> None:
    said = regard("train", recipe, "--allow-different-arithmetic")
    assert (said.code, said.out) == (2, "")
    assert "--allow-different-arithmetic is for --resume" in said.err
    assert not Path("runs").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_a_closed_pipe_does_not_prevent_saving(recipe: Path, number: signal.Signals) -> None:
    """As `regard train … | tee log`: Ctrl-C reaches both. Or the terminal is closed."""
    more = ["--set", "train.max_steps=1000000", "--set", "train.validate_every=1000000", "--run", "run"]
    with subprocess.Popen(
        [sys.executable, "-m", "regard", "train", str(recipe), *more],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),  # under nohup it would be ignored, as it should be
    ) as process:
        assert process.stdout is not None
        next(line for line in process.stdout if line.startswith("step "))
        process.stdout.close()
        process.send_signal(number)
        assert process.wait() == 130
    assert list(Path("run/checkpoints").glob("step-*"))


def test_ctrl_c_saves_and_says_how_to_go_on(regard: Any, recipe: Path) -> None:
    more = ["--set", "train.max_steps=1000000", "--set", "train.validate_every=1000000", "--run", "my run"]
    process = subprocess.Popen(
        [sys.executable, "-m", "regard", "train", str(recipe), *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("step "):
            process.send_signal(signal.SIGINT)
            break
    rest, errors = process.communicate()
    complaints = [line for line in errors.splitlines() if not line.startswith("compiling ")]  # where nobody has before
    assert (process.returncode, complaints) == (130, [])
    stopped, again = rest.splitlines()[-2:]
    assert stopped.startswith("interrupted at step ")
    step = int(stopped.split()[3].rstrip(";").replace(",", ""))
    assert again == f"resume with: {shlex.join(['regard', 'train', str(recipe), *more, '--resume'])}"
    assert not Path("my run/model").exists()
    words = shlex.split(again.removeprefix("resume with: regard "))
    said = regard(*words, "--set", f"train.max_steps={step + 1}")
    assert said.code == 0
    assert f"resumed at step {step:,}" in said.out
    assert Path("my run/model/weights.safetensors").is_file()
