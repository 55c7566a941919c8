"""Evaluation of a trained model on a split of a recipe's data, for any task."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import torch

from regard.config import RunConfig
from regard.data.prepare import Say
from regard.errors import ConfigError, DataError
from regard.model_folder.atomic import default_cache
from regard.model_folder.folder import read_description
from regard.models.load import load_weights
from regard.train.reports import ValidationReport
from regard.train.tasks import build_task, prepare_run


def evaluate_model(folder: Path, run: RunConfig, split: str, say: Say) -> ValidationReport:
    """The model of a folder on all of the `valid` or `test` texts or images of a run."""
    description = read_description(folder)
    corpora = getattr(run.data, split)
    if not corpora:
        raise ConfigError(f"the recipe has no {split} data: set data.{split}")
    # They also replace the training data, which is not needed and may be missing.
    data = dataclasses.replace(run.data, train=corpora, valid=corpora)
    train = dataclasses.replace(run.train, valid_windows=0, valid_samples=0)
    run = dataclasses.replace(run, data=data, model=description.model, train=train)
    run, prepared = prepare_run(run, default_cache(), say, description)
    task = build_task(run, prepared, torch.device("cpu"), say)
    if not task.has_validation:
        raise DataError(f"the recipe's {split} data is empty")
    load_weights(task.model, folder)
    return task.validate(0, 0)
