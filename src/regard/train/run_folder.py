"""A run is a folder.

config.json          the resolved settings, with a format version
corpora.json         what tells whether the training corpora are the same as they were
metrics.jsonl        a line per report: training steps, validations
checkpoints/step-N/  whole states of the training, each a model folder with `training/` beside
model/               the model that came out
probes.safetensors   the attention over a few sentences through the training, where the recipe names some
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from regard.config import RunConfig, to_dict
from regard.config.recipe import stored_run
from regard.errors import ConfigError, RunError
from regard.model_folder.atomic import atomic_write, remove_folder, remove_leftovers
from regard.model_folder.folder import FORMAT_VERSION, PROBES, load_json


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """A disk that is full, or that may not be written to, is told in a sentence."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        raise RunError(
            f"{path} could not be written: {error}. Nothing that was there before is lost: make room on the disk, or "
            f"put right what else is wrong with it, and go on with --resume."
        ) from None


@dataclass(frozen=True)
class RunFolder:
    path: Path

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def model(self) -> Path:
        return self.path / "model"

    @property
    def metrics(self) -> Path:
        return self.path / "metrics.jsonl"

    @property
    def probes(self) -> Path:
        return self.path / PROBES

    @property
    def config(self) -> Path:
        return self.path / "config.json"

    @property
    def corpora(self) -> Path:
        return self.path / "corpora.json"

    def check_free(self) -> None:
        """Refuse where a run has been, or where none can be."""
        there = next(path for path in (self.path, *self.path.absolute().parents) if os.path.exists(path))
        if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
            why = f"you have no permission to write to {there}" if there.is_dir() else f"{there} is not a folder"
            raise RunError(f"{self.path} cannot be the folder of a run: {why}. Name another: --run SOME/OTHER/FOLDER.")
        if self.config.exists() or self.saved_steps():
            raise RunError(
                f"{self.path} holds a run already. Go on with it: --resume. Start another: --run SOME/OTHER/FOLDER. "
                f"Nothing was changed."
            )

    def create(self, run: RunConfig) -> None:
        """Start a new run here. The settings come first: with them alone, a run can be resumed."""
        self.check_free()
        self.write_config(run)
        with writing(self.checkpoints):
            self.checkpoints.mkdir(exist_ok=True)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Nobody else trains in this folder meanwhile. The lock is the system's: it ends with the process."""
        handle = os.open(self.path, os.O_RDONLY)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise RunError(f"another process is training in {self.path}; wait for it, or stop it first") from None
            yield
        finally:
            os.close(handle)

    def is_live(self) -> bool:
        """Whether somebody trains here now. Lookers share their lock, and give it back at once."""
        try:
            handle = os.open(self.path, os.O_RDONLY)
        except OSError:
            return False
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(handle)
        return False

    def write_config(self, run: RunConfig) -> None:
        content = {"format_version": FORMAT_VERSION, **to_dict(run)}
        with writing(self.config):
            atomic_write(self.config, (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode())

    def read_config(self) -> RunConfig:
        if not self.config.exists():
            raise RunError(f"there is no run at {self.path} to resume: it has no config.json")
        try:
            content = load_json(self.config)
            version = content.pop("format_version")
            if version > FORMAT_VERSION:
                raise RunError(f"{self.path} was written by a newer Regard (format {version}); update Regard")
            return stored_run(content)
        except (ValueError, KeyError, TypeError, AttributeError, ConfigError) as error:
            raise RunError(f"{self.config} is not that of a run: {error}") from None

    def write_corpora(self, identities: list[dict[str, Any]]) -> None:
        with writing(self.corpora):
            atomic_write(self.corpora, (json.dumps(identities, indent=2) + "\n").encode())

    def read_corpora(self) -> list[dict[str, Any]]:
        """Those of the training corpora, in their order; none where the run was begun before they were kept."""
        try:
            kept = json.loads(self.corpora.read_text("utf-8"))
        except (OSError, ValueError):
            return []
        return kept if isinstance(kept, list) else []

    def clean(self) -> None:
        """Remove what a killed process left half-written."""
        remove_leftovers(self.path)
        if self.checkpoints.is_dir():
            remove_leftovers(self.checkpoints)

    def checkpoint(self, step: int) -> Path:
        return self.checkpoints / f"step-{step:08d}"

    def saved_steps(self) -> list[int]:
        """The steps at which there is a whole checkpoint, in order."""
        names = (re.fullmatch(r"step-(\d{8,})", path.name) for path in self.checkpoints.glob("step-*"))
        return sorted(int(name[1]) for name in names if name)

    def keep_only(self, steps: set[int]) -> None:
        for step in self.saved_steps():
            if step not in steps:
                with writing(self.checkpoints):
                    remove_folder(self.checkpoint(step))

    def append_metrics(self, row: dict[str, Any]) -> None:
        with writing(self.metrics), self.metrics.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")

    def read_metrics(self) -> list[dict[str, Any]]:
        """Every whole report; the last may have been cut off by a kill, and what is no report is left out."""
        if not self.metrics.exists():
            return []
        rows = []
        for line in self.metrics.read_text("utf-8", errors="replace").split("\n"):
            try:
                row = json.loads(line)
            except ValueError:
                continue
            if isinstance(row, dict) and "kind" in row and isinstance(row.get("step"), int):
                rows.append(row)
        return rows

    def forget_metrics_after(self, step: int) -> None:
        """On resuming, drop the reports of steps that will be done again."""
        rows = [row for row in self.read_metrics() if row["step"] <= step]
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        with writing(self.metrics):
            atomic_write(self.metrics, text.encode())
