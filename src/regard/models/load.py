"""Builds a model and loads the weights of its folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from torch import nn

from regard.config import FamilyConfig
from regard.errors import ConfigError, ModelFolderError
from regard.model_folder.folder import CONFIG, WEIGHTS, check_header, read_weights
from regard.models.build import Kind, build_model, require_kind

Shapes = Mapping[str, tuple[int, ...]]


def read_model(folder: Path, config: FamilyConfig, kind: type[Kind], purpose: str) -> Kind:
    """The model of `folder`, which must be of this class; `purpose` is a verb for the error, such as "translate"."""
    header = check_header(folder, config)
    outline = require_kind(build_outline(config, folder), kind, config, purpose)
    check_shapes(parameter_shapes(outline), header.shapes, folder)
    model = require_kind(build_model(config, initialise=False), kind, config, purpose)
    set_weights(model, read_weights(folder))
    return model.eval().requires_grad_(False)


def load_weights(model: nn.Module, folder: Path) -> None:
    """Load the weights of a folder into a model; all names and shapes must match."""
    weights = read_weights(folder)
    check_shapes(parameter_shapes(model), {name: array.shape for name, array in weights.items()}, folder)
    set_weights(model, weights)


def set_weights(model: nn.Module, weights: Mapping[str, np.ndarray]) -> None:
    for name, parameter in model.named_parameters():
        parameter.data = torch.from_numpy(weights[name])


def read_fitting_weights(folder: Path, config: FamilyConfig) -> dict[str, np.ndarray]:
    """The weights of a model of these settings: names and shapes are compared before memory is allocated for any."""
    header = check_header(folder, config)
    check_shapes(parameter_shapes(build_outline(config, folder)), header.shapes, folder)
    return read_weights(folder)


def build_outline(config: FamilyConfig, folder: Path) -> nn.Module:
    """The model on the meta device: names and shapes without memory. `folder` is for errors."""
    try:
        with torch.device("meta"):
            return build_model(config, initialise=False)
    except ConfigError as error:
        raise ModelFolderError(f"{folder / CONFIG} does not describe a model: {error}") from None
    except (RuntimeError, OverflowError, TypeError) as error:  # sizes, or their product, that no tensor can have
        raise ModelFolderError(f"{folder / CONFIG} asks for a model that is too large: {error}") from None


def parameter_shapes(model: nn.Module) -> dict[str, tuple[int, ...]]:
    return {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}


def check_shapes(expected: Shapes, found: Shapes, folder: Path) -> None:
    wrong = sorted(name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name))
    if wrong:
        name = wrong[0]
        raise ModelFolderError(
            f"{folder}: the weights do not fit the sizes in {CONFIG}: {name[:80]} is {found.get(name, 'missing')} in "
            f"{WEIGHTS}, but {CONFIG} implies {expected.get(name, 'none')} ({len(wrong)} mismatches)"
        )
