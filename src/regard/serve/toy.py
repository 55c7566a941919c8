"""Toy models that are trained from the page: one child process at a time.

It is an ordinary `regard train` with an ordinary run folder, and keeps many checkpoints for the attention history. It
ends with the server, even with one that is killed: `toy_process`.
"""

from __future__ import annotations

import subprocess
import tempfile
import threading
from pathlib import Path

from regard.processes import child_environment, python_command
from regard.serve.http_error import HttpError
from regard.serve.responses import ToyState

SHUTDOWN_SECONDS = 10  # for a run that is terminated: it finishes its step and saves

TRAIN = ("-m", "regard.serve.toy_process")
RECIPE = """\
[data]
src_lang = "en"
tgt_lang = "{task}"
train = [{{ toy = "{task}", size = 20000, seed = 1 }}]
valid = [{{ toy = "{task}", size = 100, seed = 2 }}]
[data.tokenizer]
vocab_size = 400
[model]
d_model = 64
n_heads = 4
d_ff = 128
n_encoder_layers = 2
n_decoder_layers = 2
dropout = 0.0
[train]
max_steps = 1000
max_minutes = {minutes}
batch_tokens = 1024
lr = 4e-3
warmup_steps = 60
schedule = "cosine"
label_smoothing = 0.0
threads = 1
log_every = 10
validate_every = 25
keep_checkpoints = 64
average_checkpoints = 1
valid_translations = 20
"""


class ToyTraining:
    """The runs that this server has started, of which at most one is running."""

    def __init__(self, runs: Path) -> None:
        self.runs = runs
        self.lock = threading.Lock()
        self.started: list[str] = []
        self.child: subprocess.Popen[bytes] | None = None
        self.scratch = tempfile.TemporaryDirectory(prefix="regard-toy-")

    def start(self, task: str, seconds: int) -> str:
        with self.lock:
            if self.running():
                raise HttpError(409, f"{self.started[-1]} is still being trained", "wait until it has finished")
            name = self.free_name(task)
            recipe = Path(self.scratch.name) / f"{name}.toml"
            recipe.write_text(RECIPE.format(task=task, minutes=seconds / 60), "utf-8")
            command = python_command(*TRAIN, str(recipe), "--run", str(self.runs / name))
            self.release()
            with self.log(name).open("wb") as log:
                self.child = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=log,
                    stderr=log,
                    env=child_environment(TERM="dumb"),
                    start_new_session=True,  # Ctrl-C is for the server, which ends the training once
                )
            self.started.append(name)
            return name

    def release(self) -> None:
        """Close the pipe of the last child."""
        if self.child is not None and self.child.stdin is not None:
            self.child.stdin.close()

    def free_name(self, task: str) -> str:
        number = 1
        while (self.runs / f"toy-{task}-{number}").exists():
            number += 1
        return f"toy-{task}-{number}"

    def log(self, name: str) -> Path:
        return Path(self.scratch.name) / f"{name}.log"

    def running(self) -> bool:
        return self.child is not None and self.child.poll() is None

    def state(self) -> ToyState | None:
        """That of the run that was started last."""
        if not self.started or self.child is None:
            return None
        name, code = self.started[-1], self.child.poll()
        error = self.log(name).read_text("utf-8", errors="replace")[-1000:] if code else None
        return ToyState(name, running=code is None, error=error)

    def models(self) -> list[Path]:
        return [self.runs / name / "model" for name in self.started]

    def close(self) -> None:
        if self.child is not None and self.child.poll() is None:
            self.child.terminate()
            try:
                self.child.wait(SHUTDOWN_SECONDS)
            except subprocess.TimeoutExpired:
                self.child.kill()
                self.child.wait()
        self.release()
        self.scratch.cleanup()
