"""Checkpoints: the complete state of a training run, written atomically and restored bit for bit.

A checkpoint is a model folder with a subfolder `training/`: optimiser state, random state, position in the data, what
it was computed with and, if the model folder holds averaged weights, the trained weights. Everything is under a
checksum: `state.json` has its own and those of the files beside it, the model folder has SHA256SUMS.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from regard.config import build
from regard.data.batches import DataPosition
from regard.errors import ConfigError, ModelFolderError, RegardError, RunError
from regard.model_folder.atomic import atomic_folder
from regard.model_folder.checked_json import SUMS, DamagedFileError, check_listed, checked, read_checked, sums_of
from regard.model_folder.folder import ModelDescription, check_sums, read_weights, write_model
from regard.train.arithmetic import Arithmetic
from regard.train.run_folder import write_errors

STATE, OPTIMIZER, TRAINED = "training/state.json", "training/optimizer.safetensors", "training/weights.safetensors"
RANDOM, ARITHMETIC = "random_state", "arithmetic"


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
    arithmetic: Arithmetic | None  # None: of a version that did not record it


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
        state = {**dataclasses.asdict(checkpoint.progress), SUMS: sums_of(folder, names)}
        if checkpoint.arithmetic is not None:
            state[ARITHMETIC] = dataclasses.asdict(checkpoint.arithmetic)
        (folder / STATE).write_bytes(checked(state))


@contextmanager
def checkpoint_errors(path: Path) -> Iterator[None]:
    """Turn errors of an incomplete or damaged checkpoint into a RunError."""
    try:
        yield
    except (OSError, ValueError, KeyError, TypeError, SafetensorError, ModelFolderError, ConfigError) as error:
        raise RunError(
            f"the checkpoint {path} cannot be read: {error}. Delete it to continue with the other checkpoints."
        ) from None


def find_damage(path: Path) -> str | None:
    """What is wrong with a checkpoint's files; None if it is whole."""
    try:
        read_state(path)
    except (OSError, ValueError, RegardError) as error:
        return str(error)
    return None


def read_state(path: Path) -> dict[str, Any]:
    """The values of state.json, after every file of the checkpoint has been compared with its checksum.

    In version 0.1 state.json had no checksum of its own; then its step must at least be that of the folder's name.
    """
    check_sums(path)
    state, has_checksum = read_checked(path / STATE)
    if not has_checksum and ARITHMETIC in state:
        raise DamagedFileError(f"{path / STATE} was altered or damaged: its checksum is missing")
    sums = state.pop(SUMS, {})
    check_listed(path, sums)
    expected = {name for name in (OPTIMIZER, TRAINED) if (path / name).exists()}
    if has_checksum and {*sums} != expected:
        raise DamagedFileError(f"{path / 'training'} is damaged: its files are not those that {STATE} lists")
    named = re.fullmatch(r"step-(\d{8,})", path.name)
    if named and state.get("step") != int(named[1]):
        raise DamagedFileError(f"{path / STATE} is damaged: it is of step {state.get('step')}, unlike its folder")
    return state


def read_arithmetic(path: Path) -> Arithmetic | None:
    """What a checkpoint was computed with."""
    with checkpoint_errors(path):
        return arithmetic_in(read_state(path))


def arithmetic_in(state: dict[str, Any]) -> Arithmetic | None:
    return build(Arithmetic, state[ARITHMETIC], ARITHMETIC) if ARITHMETIC in state else None


def load_checkpoint(path: Path) -> Checkpoint:
    with checkpoint_errors(path):
        state = read_state(path)
        arithmetic = arithmetic_in(state)
        state.pop(ARITHMETIC, None)
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
            arithmetic=arithmetic,
        )
