"""How good a trained model is on a part of a recipe's data, whatever its task."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import torch

from regard.config import RunConfig
from regard.data.prepare import Say
from regard.errors import ConfigError
from regard.files import default_cache
from regard.folder import read_description, read_weights
from regard.train.reports import ValidationReport
from regard.train.tasks import build_task, prepare_run


def measure_model(folder: Path, run: RunConfig, split: str, say: Say) -> ValidationReport:
    """The model of a folder on the `valid` or `test` texts or images of a run."""
    description = read_description(folder)
    corpora = getattr(run.data, split)
    if not corpora:
        raise ConfigError(f"the recipe names no {split} data")
    data = dataclasses.replace(run.data, valid=corpora)
    run = dataclasses.replace(run, data=data, model=description.model)
    run, prepared = prepare_run(run, default_cache(), say, description)
    task = build_task(run, prepared, torch.device("cpu"), say)
    weights = read_weights(folder)
    with torch.no_grad():
        for name, parameter in task.model.named_parameters():
            parameter.copy_(torch.from_numpy(weights[name]))
    return task.measure(0, 0)
