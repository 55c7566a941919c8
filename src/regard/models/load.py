"""Builds a model and loads the weights of its folder."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from regard.config import FamilyConfig
from regard.errors import ModelFolderError
from regard.model_folder.folder import read_weights
from regard.models.build import Kind, build_model, require_kind


def read_model(folder: Path, config: FamilyConfig, kind: type[Kind], purpose: str) -> Kind:
    """The model of `folder`, which must be of this class; `purpose` is a verb for the error, such as "translate"."""
    model = require_kind(build_model(config, initialise=False), kind, config, purpose)
    load_weights(model, folder)
    return model.eval().requires_grad_(False)


def load_weights(model: nn.Module, folder: Path) -> None:
    """Load the weights of a folder into a model; all names and shapes must match."""
    weights = {name: torch.from_numpy(array) for name, array in read_weights(folder).items()}
    expected = {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
    if expected != {name: tuple(weight.shape) for name, weight in weights.items()}:
        raise ModelFolderError(f"{folder}: the weights do not fit the sizes in config.json")
    for name, parameter in model.named_parameters():
        parameter.data = weights[name]
