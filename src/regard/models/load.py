"""A model with the weights of its folder, ready for use."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from regard.config import FamilyConfig
from regard.errors import ModelFolderError
from regard.model_folder.folder import read_weights
from regard.models.build import Kind, build_model, fitting


def read_model(folder: Path, config: FamilyConfig, kind: type[Kind], purpose: str) -> Kind:
    """The model of `folder`, which must be of this kind, to be fit for `purpose`, a verb."""
    model = fitting(build_model(config, initialise=False), kind, config, purpose)
    take_weights(model, folder)
    return model.eval().requires_grad_(False)


def take_weights(model: nn.Module, folder: Path) -> None:
    """Give a model the weights of a folder, which must all fit."""
    weights = {name: torch.from_numpy(array) for name, array in read_weights(folder).items()}
    expected = {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
    if expected != {name: tuple(weight.shape) for name, weight in weights.items()}:
        raise ModelFolderError(f"{folder}: the weights do not fit the sizes in config.json")
    for name, parameter in model.named_parameters():
        parameter.data = weights[name]
