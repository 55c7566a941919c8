"""A run is a folder.

config.json          the resolved settings, with a format version
metrics.jsonl        a line per report: training steps, validations
checkpoints/step-N/  whole states of the training, each a model folder with `training/` beside
model/               the model that came out
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.config import RunConfig, run_from_dict, to_dict
from regard.errors import ConfigError, RunError
from regard.files import atomic_write, remove_leftovers
from regard.folder import FORMAT_VERSION, load_json


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
    def config(self) -> Path:
        return self.path / "config.json"

    def create(self, run: RunConfig) -> None:
        """Start a new run here; refuse where one has been."""
        if self.config.exists() or self.checkpoints.exists():
            raise RunError(
                f"{self.path} holds a run already. Go on with it: --resume. Start another: --run SOME/OTHER/FOLDER. "
                f"Nothing was changed."
            )
        self.checkpoints.mkdir(parents=True)
        self.write_config(run)

    def write_config(self, run: RunConfig) -> None:
        content = {"format_version": FORMAT_VERSION, **to_dict(run)}
        atomic_write(self.config, (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode())

    def read_config(self) -> RunConfig:
        if not self.config.exists():
            raise RunError(f"there is no run at {self.path} to resume: it has no config.json")
        try:
            content = load_json(self.config)
            version = content.pop("format_version")
            if version > FORMAT_VERSION:
                raise RunError(f"{self.path} was written by a newer Regard (format {version}); update Regard")
            return run_from_dict(content)
        except (ValueError, KeyError, ConfigError) as error:
            raise RunError(f"{self.config} cannot be read: {error}") from None

    def clean(self) -> None:
        """Remove what a killed process left half-written."""
        remove_leftovers(self.path)
        if self.checkpoints.is_dir():
            remove_leftovers(self.checkpoints)

    def checkpoint(self, step: int) -> Path:
        return self.checkpoints / f"step-{step:08d}"

    def saved_steps(self) -> list[int]:
        """The steps at which there is a whole checkpoint, in order."""
        return sorted(int(path.name[5:]) for path in self.checkpoints.glob("step-*"))

    def keep_only(self, steps: set[int]) -> None:
        for step in self.saved_steps():
            if step not in steps:
                shutil.rmtree(self.checkpoint(step))

    def append_metrics(self, row: dict[str, Any]) -> None:
        with self.metrics.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")

    def read_metrics(self) -> list[dict[str, Any]]:
        """Every whole line; the last may have been cut off by a kill."""
        if not self.metrics.exists():
            return []
        rows = []
        for line in self.metrics.read_text("utf-8", errors="replace").split("\n"):
            try:
                rows.append(json.loads(line))
            except ValueError:
                continue
        return rows

    def forget_metrics_after(self, step: int) -> None:
        """On resuming, drop the reports of steps that will be done again."""
        rows = [row for row in self.read_metrics() if row["step"] <= step]
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        atomic_write(self.metrics, text.encode())
