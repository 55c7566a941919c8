"""Averaging checkpoints (the paper, section 6.1): the mean of the last few states is better than any of them."""

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
            raise ModelFolderError(f"{folder} and {folders[0]} are models of different shape; they cannot be averaged")
        for name, weight in weights.items():
            sums[name] = sums[name] + weight if name in sums else weight.astype(np.float64)
    return {name: (total / len(folders)).astype(np.float32) for name, total in sums.items()}


def first_difference(one: FamilyConfig, other: FamilyConfig) -> str:
    """The first setting of a model that is not the other's, in words; '' where they are the same model."""
    ours, theirs = flatten(to_dict(one)), flatten(to_dict(other))
    for name in {**ours, **theirs}:
        # Dropout may change while a model is trained, and is not there when it is used.
        if "dropout" not in name and ours.get(name) != theirs.get(name):
            return f"model.{name} is {ours.get(name)!r} in the one and {theirs.get(name)!r} in the other"
    return ""


def name_folders(folders: Sequence[Path]) -> str:
    """The folders' names where they tell them apart, else their paths."""
    names = [folder.name for folder in folders]
    return ", ".join(names if len(set(names)) == len(names) else map(str, folders))


def write_average(
    folders: Sequence[Path], path: Path, stored_as: StoredAs = "float32", new_card: str | None = None
) -> None:
    """A new model folder with the mean of the weights; all else is the last folder's, but for a card that is given."""
    if path.exists():
        raise ModelFolderError(f"{path} exists already; name another folder with -o")
    descriptions = [read_description(folder) for folder in folders]
    if any(other.tokenizer != descriptions[-1].tokenizer for other in descriptions):
        raise ModelFolderError("the models have different tokenizers; they cannot be averaged")
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
