"""The training runs in a folder: their metrics and attention histories.

A run without a recorded attention history gets one from its checkpoints: the probes are a few validation sentences
from its metrics.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from regard.errors import RegardError
from regard.model_folder.folder import PROBES
from regard.serve.attention_history import checkpoint_snapshot, pack_history
from regard.serve.http_error import HttpError
from regard.serve.metrics import Row, last_step, read_rows
from regard.serve.request_body import has_surrogates
from regard.serve.responses import MetricsRow, Run
from regard.train.probes import Probe, ProbeHistory, Snapshot, read_history
from regard.train.run_folder import RunFolder

MAX_RUNS = 200
MAX_PROBES = 3
MAX_CHARACTERS = 160  # of a probe
MAX_SNAPSHOTS = 64
ProbedSnapshot = tuple[tuple[Probe, ...], Snapshot]


class RunFolders:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lock = threading.Lock()
        self.snapshots: OrderedDict[tuple[Path, int], ProbedSnapshot | None] = OrderedDict()

    def by_name(self) -> dict[str, RunFolder]:
        """The runs by name, the most recently active first."""
        try:
            runs = [RunFolder(path) for path in self.folder.iterdir() if os.path.isfile(path / "config.json")]
        except OSError:  # there is no such folder, or it may not be read
            return {}
        runs.sort(key=lambda run: (-last_change(run.metrics), run.path.name))
        return {run.path.name: run for run in runs[:MAX_RUNS]}

    def run(self, name: str) -> RunFolder:
        runs = self.by_name()
        if name not in runs:
            raise HttpError(404, f"there is no run {name!r} in {self.folder}", "/api/runs lists them")
        return runs[name]

    def describe_all(self) -> tuple[Run, ...]:
        return tuple(self.describe(name, run) for name, run in self.by_name().items())

    def describe(self, name: str, run: RunFolder) -> Run:
        return Run(
            name,
            step=last_step(run.metrics),
            live=run.is_training(),
            model=run.model.is_dir(),
            checkpoints=tuple(run.saved_steps()),
            recorded=run.probes.is_file(),
        )

    def metrics(self, name: str, after: int) -> tuple[MetricsRow, ...]:
        return tuple(cast(MetricsRow, row) for row in read_rows(self.run(name).metrics) if row["step"] > after)

    def attention_history(self, name: str, after: int) -> bytes:
        """The one that the run has recorded, or else one from its checkpoints."""
        run = self.run(name)
        recorded = [read_history(path) for path in (run.probes, run.model / PROBES) if path.is_file()]
        recorded = [history for history in recorded if history.snapshots]
        if recorded:  # on a tie, the model's: its last snapshot is the model itself
            latest = max(reversed(recorded), key=lambda history: history.snapshots[-1].step)
            return pack_history(name, latest.thinned(), after)
        pairs = probe_pairs(read_rows(run.metrics))
        steps = thinned([step for step in run.saved_steps() if step > after], MAX_SNAPSHOTS) if pairs else []
        found = [one for step in steps if (one := self.snapshot(run, step, pairs)) is not None]
        if not found and after < 0:
            raise HttpError(
                404,
                f"the run {name!r} has no attention history yet",
                "it needs train.probes, or a checkpoint and a validation with samples (train.valid_samples), of a "
                "translation model with attention",
            )
        probes = found[-1][0] if found else ()
        return pack_history(name, ProbeHistory(probes, tuple(one for _, one in found)), after, forced=True)

    def snapshot(self, run: RunFolder, step: int, pairs: list[tuple[str, str]]) -> ProbedSnapshot | None:
        """That of a checkpoint; None: the model has no attention, or the run has removed the checkpoint."""
        folder = run.checkpoint(step)
        with self.lock:
            try:
                key = folder, folder.stat().st_mtime_ns  # another run may have replaced this one
                if key not in self.snapshots:
                    self.snapshots[key] = checkpoint_snapshot(folder, step, pairs)
            except OSError:
                return None
            except RegardError:
                self.snapshots[key] = None
            while len(self.snapshots) > 4 * MAX_SNAPSHOTS:
                self.snapshots.popitem(last=False)
            return self.snapshots.get(key)


def probe_pairs(rows: Sequence[Row]) -> list[tuple[str, str]]:
    """The samples of the first validation; later ones have the same."""
    for row in rows:
        samples = row.get("samples") or []
        pairs = [(sample["source"], sample["reference"]) for sample in samples]
        pairs = [pair for pair in pairs if all(map(is_probe, pair))]
        if pairs:
            return pairs[:MAX_PROBES]
    return []


def is_probe(text: str) -> bool:
    return len(text) <= MAX_CHARACTERS and not has_surrogates(text)


def thinned(steps: list[int], most: int) -> list[int]:
    """At most `most` of the steps, evenly spaced, including the last."""
    if len(steps) <= most:
        return steps
    return [steps[round(i * (len(steps) - 1) / (most - 1))] for i in range(most)]


def last_change(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
