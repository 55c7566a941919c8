"""Checkpoint averaging (the paper, section 6.1)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from regard.config import FamilyConfig, to_dict
from regard.config.recipe import flatten
from regard.errors import ModelFolderError
from regard.model_folder.atomic import atomic_folder
from regard.model_folder.folder import (
    CARD,
    PROBES,
    read_description,
    read_shortlist,
    read_weights,
    write_model,
    write_shortlist,
)
from regard.model_folder.weights import StoredAs


def average_weights(folders: Sequence[Path]) -> dict[str, np.ndarray]:
    """The mean of every parameter over the model folders, summed in float64."""
    sums: dict[str, np.ndarray] = {}
    for folder in folders:
        weights = read_weights(folder)
        if sums and {n: w.shape for n, w in weights.items()} != {n: w.shape for n, w in sums.items()}:
            raise ModelFolderError(f"{folder} and {folders[0]} have weights of different shapes and cannot be averaged")
        for name, weight in weights.items():
            sums[name] = sums[name] + weight if name in sums else weight.astype(np.float64)
    return {name: (total / len(folders)).astype(np.float32) for name, total in sums.items()}


def first_difference(one: FamilyConfig, other: FamilyConfig) -> str:
    """Describes the first setting in which two models differ; '' if there is none."""
    ours, theirs = flatten(to_dict(one)), flatten(to_dict(other))
    for name in {**ours, **theirs}:
        # Dropout may change during training and has no effect at inference.
        if "dropout" not in name and ours.get(name) != theirs.get(name):
            return f"model.{name} is {ours.get(name)!r} and {theirs.get(name)!r}"
    return ""


def name_folders(folders: Sequence[Path]) -> str:
    """The folders' names if they are distinct, else their paths."""
    names = [folder.name for folder in folders]
    return ", ".join(names if len(set(names)) == len(names) else map(str, folders))


def write_average(
    folders: Sequence[Path], path: Path, stored_as: StoredAs = "float32", new_card: str | None = None
) -> None:
    """Write a model folder with the mean of the weights; everything else, except `new_card`, is the last folder's."""
    if path.exists():
        raise ModelFolderError(f"{path} already exists; choose another folder with -o")
    descriptions = [read_description(folder) for folder in folders]
    if any(other.tokenizer != descriptions[-1].tokenizer for other in descriptions):
        raise ModelFolderError("models with different tokenizers cannot be averaged")
    for other, description in zip(folders, descriptions, strict=True):
        if difference := first_difference(descriptions[-1].model, description.model):
            raise ModelFolderError(f"{folders[-1]} and {other} cannot be averaged: {difference}")
    card = (folders[-1] / CARD).read_text("utf-8") if new_card is None else new_card
    probes = folders[-1] / PROBES
    if len(folders) > 1 and new_card is None:
        card += (
            f"\nThe weights are the mean of {len(folders)} checkpoints: {name_folders(folders)}. "
            f"The scores above are the last one's.\n"
        )
    with atomic_folder(path) as folder:
        recorded = probes.read_bytes() if probes.is_file() else None
        write_model(folder, descriptions[-1], average_weights(folders), card, recorded, stored_as)
        if (shortlist := read_shortlist(folders[-1])) is not None:
            write_shortlist(folder, shortlist)
