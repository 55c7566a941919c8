"""The trainings in a folder of runs: their reports, and how attention took shape in them.

The *probes* of a run are a few sentences of its validation, as its reports have them. Each checkpoint that the run
keeps is a whole model: it is asked for its attention over each probe and its reference, and the maps, one after the
other, are a film.
"""

from __future__ import annotations

import json
import os
import threading
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from regard.errors import RegardError
from regard.inspect.wire import pack
from regard.serve.refusal import Refusal
from regard.train.run import RunFolder
from regard.translator import Translator

MOST_RUNS = 200
PROBES = 3
MOST_PIECES = 40  # of a probe
MOST_FRAMES = 64
TAIL = 1 << 17  # bytes at the end of the reports in which the last one is looked for
ATTENTION = ("*.weights",)

Frame = dict[str, np.ndarray]


class Runs:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lock = threading.Lock()
        self.frames: OrderedDict[tuple[Path, int], list[tuple[dict[str, Any], Frame]]] = OrderedDict()

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
            raise Refusal(404, f"there is no run {name!r} in {self.folder}", "/api/runs lists them")
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
        }

    def metrics(self, name: str, after: int) -> list[dict[str, Any]]:
        return [row for row in self.run(name).read_metrics() if row["step"] > after]

    def probes(self, name: str, after: int) -> bytes:
        run = self.run(name)
        pairs = probe_pairs(run.read_metrics())
        steps = [step for step in run.saved_steps() if step > after]
        if not pairs or not run.saved_steps():
            raise Refusal(
                404,
                f"the run {name!r} has nothing to show of its attention yet",
                "it needs a checkpoint, and a validation with samples (train.samples)",
            )
        probes: list[dict[str, Any]] = []
        arrays: dict[str, np.ndarray] = {}
        done: list[int] = []
        for step in thinned(steps, MOST_FRAMES):
            frame = self.frame(run, step, pairs)
            if frame is None:  # the training removes old checkpoints while we look
                continue
            done.append(step)
            probes = [described for described, _ in frame]
            for number, (_, maps) in enumerate(frame):
                arrays.update({f"{step}/{number}/{path}": value for path, value in maps.items()})
        return pack({"run": name, "steps": done, "probes": probes}, arrays)

    def frame(
        self, run: RunFolder, step: int, pairs: list[tuple[str, str]]
    ) -> list[tuple[dict[str, Any], Frame]] | None:
        """The maps of each probe in one checkpoint."""
        folder = run.checkpoint(step)
        with self.lock:
            if (folder, step) not in self.frames:
                try:
                    self.frames[folder, step] = list(attention_of(folder, pairs))
                except (RegardError, OSError):
                    return None
                while len(self.frames) > 4 * MOST_FRAMES:
                    self.frames.popitem(last=False)
            return self.frames[folder, step]


def attention_of(folder: Path, pairs: list[tuple[str, str]]) -> Iterator[tuple[dict[str, Any], Frame]]:
    translator = Translator(folder)
    for source, reference in pairs:
        trace = translator.trace(source, reference, ATTENTION)
        described = {
            "text": source,
            "translation": reference,
            "src": list(trace.src_tokens),
            "tgt": list(trace.tgt_tokens),
            "probabilities": [float(value) for value in trace.probabilities],
        }
        yield described, {path: np.rint(value * 255).astype(np.uint8) for path, value in trace.values.items()}


def probe_pairs(rows: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """The first validation's samples: the later ones have the same."""
    for row in rows:
        samples = row.get("samples") or []
        pairs = [(sample["source"], sample["reference"]) for sample in samples]
        pairs = [pair for pair in pairs if all(len(text) <= 4 * MOST_PIECES for text in pair)]
        if pairs:
            return pairs[:PROBES]
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
