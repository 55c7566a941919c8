"""A run is a folder.

config.json          the resolved settings, with a format version and a checksum
corpora.json         fingerprints of the corpora of training and validation, with a checksum
metrics.jsonl        a line per report: training steps, validations
checkpoints/step-N/  complete states, each a model folder with a subfolder `training/`
checkpoints/damaged-step-N/  those that were found damaged
model/               the final model
probes.safetensors   attention history of the probe sentences (train.probes)
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
from regard.model_folder.checked_json import DamagedFileError, checked, read_checked
from regard.model_folder.folder import FORMAT_VERSION, PROBES

FORMER = "former"


@contextmanager
def write_errors(path: Path) -> Iterator[None]:
    """Turn errors of a full or read-only disk into a RunError."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        raise RunError(
            f"{path} could not be written: {error}. Earlier files are intact: free disk space or fix the cause, then "
            f"continue with --resume."
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
        """Raise if the folder holds a run or cannot be written to."""
        there = next(path for path in (self.path, *self.path.absolute().parents) if os.path.exists(path))
        if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
            why = f"you have no permission to write to {there}" if there.is_dir() else f"{there} is not a folder"
            raise RunError(f"{self.path} cannot be used as a run folder: {why}. Choose another one with --run FOLDER.")
        if self.config.exists() or self.saved_steps():
            raise RunError(
                f"{self.path} already holds a run. Resume it with --resume, or start a new one with --run FOLDER."
            )

    @contextmanager
    def created(self, run: RunConfig) -> Iterator[None]:
        """Create and lock the folder. The settings are written first: a run can be resumed from them alone."""
        self.check_free()
        with write_errors(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
        with self.locked():
            self.check_free()  # another process may have just created it
            self.clean()
            self.write_config(run)
            with write_errors(self.checkpoints):
                self.checkpoints.mkdir(exist_ok=True)
            yield

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the folder against other training processes; the lock ends with the process."""
        handle = os.open(self.path, os.O_RDONLY)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise RunError(f"another process is training in {self.path}; wait for it, or stop it first") from None
            yield
        finally:
            os.close(handle)

    def is_training(self) -> bool:
        """Whether a process is training here. Takes a shared lock for a moment."""
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
        with write_errors(self.config):
            atomic_write(self.config, checked(content))

    def read_config(self) -> RunConfig:
        if not self.config.exists():
            raise RunError(f"no run to resume at {self.path}: it has no config.json")
        try:
            content, _ = read_checked(self.config)
            version = content.pop("format_version")
            if version > FORMAT_VERSION:
                raise RunError(f"{self.path} was written by a newer Regard (format {version}); update Regard")
            return stored_run(content)
        except DamagedFileError as error:
            raise RunError(
                f"{self.config} is not a valid run configuration: {error}. Restore it from a copy or, if you changed "
                "it yourself, delete its entry sha256"
            ) from None
        except (ValueError, KeyError, TypeError, AttributeError, ConfigError) as error:
            raise RunError(f"{self.config} is not a valid run configuration: {error}") from None

    def write_corpora(self, identities: dict[str, list[dict[str, Any]]]) -> None:
        with write_errors(self.corpora):
            atomic_write(self.corpora, checked(identities))

    def read_corpora(self) -> dict[str, list[dict[str, Any]]]:
        """Fingerprints of the corpora by their use, in order; nothing for a run that has none.

        Those of version 0.1, of paths, sizes and times, come as FORMER. Raises DamagedFileError.
        """
        if not self.corpora.exists():
            return {}
        try:
            former = json.loads(self.corpora.read_text("utf-8"))
        except (ValueError, RecursionError):
            former = None
        if isinstance(former, list):
            return {FORMER: former}
        stored, has_checksum = read_checked(self.corpora)
        if not has_checksum:
            raise DamagedFileError(f"{self.corpora} was altered or damaged: its checksum is missing")
        return stored

    def clean(self) -> None:
        """Remove incomplete files of a killed process."""
        remove_leftovers(self.path)
        if self.checkpoints.is_dir():
            remove_leftovers(self.checkpoints)

    def checkpoint(self, step: int) -> Path:
        return self.checkpoints / f"step-{step:08d}"

    def set_aside(self, step: int) -> Path:
        """Rename a damaged checkpoint, so that nobody takes it for one; returns where it is now."""
        names = (f"damaged-{self.checkpoint(step).name}{end}" for end in ("", *(f"-{n}" for n in range(2, 1000))))
        aside = next(path for name in names if not (path := self.checkpoints / name).exists())
        with write_errors(self.checkpoints):
            self.checkpoint(step).rename(aside)
        return aside

    def saved_steps(self) -> list[int]:
        """The steps with a complete checkpoint, in order."""
        names = (re.fullmatch(r"step-(\d{8,})", path.name) for path in self.checkpoints.glob("step-*"))
        return sorted(int(name[1]) for name in names if name)

    def keep_only(self, steps: set[int]) -> None:
        for step in self.saved_steps():
            if step not in steps:
                with write_errors(self.checkpoints):
                    remove_folder(self.checkpoint(step))

    def append_metrics(self, row: dict[str, Any]) -> None:
        with write_errors(self.metrics), self.metrics.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")

    def read_metrics(self) -> list[dict[str, Any]]:
        """All complete reports; other lines, such as one cut off by a kill, are skipped."""
        if not self.metrics.exists():
            return []
        rows = []
        for line in self.metrics.read_text("utf-8", errors="replace").split("\n"):
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(row, dict) and "kind" in row and isinstance(row.get("step"), int):
                rows.append(row)
        return rows

    def drop_metrics_after(self, step: int) -> None:
        """Drop the reports of steps that will be repeated after resuming."""
        rows = [row for row in self.read_metrics() if row["step"] <= step]
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        with write_errors(self.metrics):
            atomic_write(self.metrics, text.encode())
