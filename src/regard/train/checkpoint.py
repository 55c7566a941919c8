"""Checkpoints: the complete state of a training run, written atomically and restored bit for bit.

A checkpoint is a model folder with a subfolder `training/`: optimiser state, random state, position in the data and, if
the model folder holds averaged weights, the trained weights.
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
from regard.train.run_folder import write_errors

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
    """The progress of a run."""

    step: int = 0
    position: DataPosition = field(default_factory=DataPosition)
    seconds: float = 0.0
    tokens: int = 0
    ended_tokens: int = 0  # of the finished epochs
    tally: Tally = field(default_factory=Tally)
    metric: str = ""  # that selects the best checkpoint
    best: float | None = None  # of that metric, greater is better
    best_step: int = 0
    stale: int = 0  # validations since the best
    scores: dict[str, float] = field(default_factory=dict)  # of the last validation
    interruptions: list[int] = field(default_factory=list)  # steps that were saved only because of an interruption


@dataclass
class Checkpoint:
    progress: Progress
    weights: dict[str, Tensor]  # trained
    averages: dict[str, Tensor] | None  # exponential moving average
    optimizer: dict[str, Tensor]
    random_state: Tensor


def save_checkpoint(path: Path, checkpoint: Checkpoint, description: ModelDescription, card: str) -> None:
    """Write a checkpoint atomically."""
    model_weights = checkpoint.weights if checkpoint.averages is None else checkpoint.averages
    with write_errors(path), atomic_folder(path, replace=True) as folder:
        write_model(folder, description, {name: w.numpy() for name, w in model_weights.items()}, card)
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
def checkpoint_errors(path: Path) -> Iterator[None]:
    """Turn errors of an incomplete or damaged checkpoint into a RunError."""
    try:
        yield
    except (OSError, ValueError, KeyError, TypeError, SafetensorError, ModelFolderError) as error:
        raise RunError(
            f"the checkpoint {path} cannot be read: {error}. Delete it to resume from the one before."
        ) from None


def load_checkpoint(path: Path) -> Checkpoint:
    with checkpoint_errors(path):
        check_sums(path)
        state: dict[str, Any] = load_json(path / STATE)
        for name, expected in state.pop("sums", {}).items():
            if digest(path / name) != expected:
                raise ValueError(f"{name} was altered or damaged")
        # Until version 0.1 the position was called place.
        position = DataPosition(**(state.pop("position", None) or state.pop("place")))
        tally = Tally(**state.pop("tally", {}))
        tensors = load_file(path / OPTIMIZER)
        model_weights = {name: torch.from_numpy(array) for name, array in read_weights(path).items()}
        averaged = (path / TRAINED).exists()
        return Checkpoint(
            Progress(position=position, tally=tally, **state),
            weights=load_file(path / TRAINED) if averaged else model_weights,
            averages=model_weights if averaged else None,
            random_state=tensors.pop(RANDOM),
            optimizer=tensors,
        )
