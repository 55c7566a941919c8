"""The trainings in a folder of runs: their reports, and how attention took shape in them.

What a run has recorded of its probes is a film of its attention (film.py). Where it has not, the probes are a few
sentences of its validation, as its reports have them, and the film is made of the checkpoints that it keeps.
"""

from __future__ import annotations

import json
import os
import threading
from collections import OrderedDict
from pathlib import Path
from typing import Any

from regard.errors import RegardError
from regard.model_folder.folder import PROBES
from regard.serve.attention_history import frame_of, pack_film
from regard.serve.http_error import HttpError
from regard.train.probes import Probe, ProbeHistory, Snapshot, read_history
from regard.train.run_folder import RunFolder

MOST_RUNS = 200
MOST_PROBES = 3
MOST_PIECES = 40  # of a probe
MOST_FRAMES = 64
Frame = tuple[tuple[Probe, ...], Snapshot]
TAIL = 1 << 17  # bytes at the end of the reports in which the last one is looked for


class Runs:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lock = threading.Lock()
        self.frames: OrderedDict[tuple[Path, int], Frame | None] = OrderedDict()

    def found(self) -> dict[str, RunFolder]:
        """The runs by name, those with the newest reports first."""
        if not self.folder.is_dir():
            return {}
        runs = [RunFolder(path) for path in self.folder.iterdir() if (path / "config.json").is_file()]
        runs.sort(key=lambda run: (-last_change(run.metrics), run.path.name))
        return {run.path.name: run for run in runs[:MOST_RUNS]}

    def run(self, name: str) -> RunFolder:
        runs = self.found()
        if name not in runs:
            raise HttpError(404, f"there is no run {name!r} in {self.folder}", "/api/runs lists them")
        return runs[name]

    def describe_all(self) -> list[dict[str, Any]]:
        return [self.describe(name, run) for name, run in self.found().items()]

    def describe(self, name: str, run: RunFolder) -> dict[str, Any]:
        return {
            "name": name,
            "step": last_step(run.metrics),
            "live": run.is_live(),
            "model": run.model.is_dir(),
            "checkpoints": run.saved_steps(),
            "recorded": run.probes.is_file(),
        }

    def metrics(self, name: str, after: int) -> list[dict[str, Any]]:
        return [row for row in self.run(name).read_metrics() if row["step"] > after]

    def probes(self, name: str, after: int) -> bytes:
        """The film of a training: what it recorded itself, or else what its checkpoints do."""
        run = self.run(name)
        recorded = [read_history(path) for path in (run.probes, run.model / PROBES) if path.is_file()]
        recorded = [history for history in recorded if history.moments]
        if recorded:  # of equals, the model's: its last moment is the model itself
            latest = max(reversed(recorded), key=lambda history: history.moments[-1].step)
            return pack_film(name, latest.thinned(), after)
        pairs = probe_pairs(run.read_metrics())
        steps = thinned([step for step in run.saved_steps() if step > after], MOST_FRAMES) if pairs else []
        kept = [frame for step in steps if (frame := self.frame(run, step, pairs)) is not None]
        if not kept and after < 0:
            raise HttpError(
                404,
                f"the run {name!r} has nothing to show of its attention yet",
                "it needs train.probes, or a checkpoint and a validation with samples (train.valid_samples), of a "
                "model that translates and has attention",
            )
        probes = kept[-1][0] if kept else ()
        return pack_film(name, ProbeHistory(probes, tuple(moment for _, moment in kept)), after, forced=True)

    def frame(self, run: RunFolder, step: int, pairs: list[tuple[str, str]]) -> Frame | None:
        """One checkpoint; none of a model without attention, or if it has gone: the training removes old ones."""
        folder = run.checkpoint(step)
        with self.lock:
            try:
                key = folder, folder.stat().st_mtime_ns  # another run may have taken the place of this one
                if key not in self.frames:
                    self.frames[key] = frame_of(folder, step, pairs)
            except OSError:
                return None
            except RegardError:
                self.frames[key] = None
            while len(self.frames) > 4 * MOST_FRAMES:
                self.frames.popitem(last=False)
            return self.frames.get(key)


def probe_pairs(rows: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """The first validation's samples: the later ones have the same."""
    for row in rows:
        samples = row.get("samples") or []
        pairs = [(sample["source"], sample["reference"]) for sample in samples]
        pairs = [pair for pair in pairs if all(len(text) <= 4 * MOST_PIECES for text in pair)]
        if pairs:
            return pairs[:MOST_PROBES]
    return []


def thinned(steps: list[int], most: int) -> list[int]:
    """At most so many, evenly, the last among them."""
    if len(steps) <= most:
        return steps
    return [steps[round(i * (len(steps) - 1) / (most - 1))] for i in range(most)]


def last_step(metrics: Path) -> int:
    """The step of the last whole report, without reading all of them: a page asks for this every few seconds."""
    try:
        with metrics.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL))
            lines = file.read().splitlines()
    except OSError:
        return 0
    for line in reversed(lines):
        try:
            return int(json.loads(line)["step"])
        except (ValueError, KeyError, TypeError):
            continue
    return 0


def last_change(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
