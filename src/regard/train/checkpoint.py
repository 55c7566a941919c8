"""The whole state of a training: written at once or not at all, read back to the last bit.

A checkpoint is a model folder with `training/` beside: the optimiser's tensors, the random state, the place in
the data and, where the model folder holds averaged weights, the weights that are being trained.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from regard.data.batches import DataPosition
from regard.errors import ModelFolderError, RunError
from regard.model_folder.atomic import atomic_folder
from regard.model_folder.folder import ModelDescription, check_sums, digest, load_json, read_weights, write_model
from regard.train.run_folder import writing

STATE, OPTIMIZER, TRAINED = "training/state.json", "training/optimizer.safetensors", "training/weights.safetensors"
RANDOM = "random_state"


@dataclass
class Tally:
    """Sums over the steps since the last report."""

    objective: float = 0.0
    nll: float = 0.0
    tokens: int = 0
    seconds: float = 0.0

    def add(self, objective: float, nll: float, tokens: int, seconds: float) -> None:
        self.objective += objective * tokens
        self.nll += nll * tokens
        self.tokens += tokens
        self.seconds += seconds


@dataclass
class Progress:
    """How far a training has come."""

    step: int = 0
    place: DataPosition = field(default_factory=DataPosition)
    seconds: float = 0.0
    tokens: int = 0
    ended_tokens: int = 0  # of the epochs that have ended
    tally: Tally = field(default_factory=Tally)
    metric: str = ""  # the one that is watched
    best: float | None = None  # of that metric, greater is better
    best_step: int = 0
    stale: int = 0  # validations since the best
    scores: dict[str, float] = field(default_factory=dict)  # of the last validation
    interruptions: list[int] = field(default_factory=list)  # steps saved for no other reason


@dataclass
class Checkpoint:
    progress: Progress
    weights: dict[str, Tensor]  # as they are trained
    averages: dict[str, Tensor] | None  # the moving average, if there is one
    optimizer: dict[str, Tensor]
    random_state: Tensor


def save_checkpoint(path: Path, checkpoint: Checkpoint, description: ModelDescription, card: str) -> None:
    """What is at `path` afterwards is a whole checkpoint, or nothing."""
    offered = checkpoint.weights if checkpoint.averages is None else checkpoint.averages
    with writing(path), atomic_folder(path, replace=True) as folder:
        write_model(folder, description, {name: w.numpy() for name, w in offered.items()}, card)
        (folder / "training").mkdir()
        save_file({**checkpoint.optimizer, RANDOM: checkpoint.random_state}, folder / OPTIMIZER)
        names = [OPTIMIZER]
        if checkpoint.averages is not None:
            save_file(checkpoint.weights, folder / TRAINED)
            names.append(TRAINED)
        sums = {name: digest(folder / name) for name in names}
        state = json.dumps({**dataclasses.asdict(checkpoint.progress), "sums": sums}, indent=2)
        (folder / STATE).write_text(state + "\n", "utf-8")


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """A checkpoint that lacks something, or that was altered, is told in a sentence."""
    try:
        yield
    except (OSError, ValueError, KeyError, TypeError, SafetensorError, ModelFolderError) as error:
        raise RunError(f"the checkpoint {path} cannot be read: {error}. Delete it to go on without it.") from None


def load_checkpoint(path: Path) -> Checkpoint:
    with reading(path):
        check_sums(path)
        state: dict[str, Any] = load_json(path / STATE)
        for name, expected in state.pop("sums", {}).items():
            if digest(path / name) != expected:
                raise ValueError(f"{name} was altered or damaged")
        place, tally = DataPosition(**state.pop("place")), Tally(**state.pop("tally", {}))
        tensors = load_file(path / OPTIMIZER)
        offered = {name: torch.from_numpy(array) for name, array in read_weights(path).items()}
        averaged = (path / TRAINED).exists()
        return Checkpoint(
            Progress(place=place, tally=tally, **state),
            weights=load_file(path / TRAINED) if averaged else offered,
            averages=offered if averaged else None,
            random_state=tensors.pop(RANDOM),
            optimizer=tensors,
        )
