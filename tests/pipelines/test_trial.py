"""The trial of a model folder at its import."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from regard.errors import ModelFolderError, RegardError
from regard.pipelines.trial import try_model


def overflow(model: Any, vocabulary: object) -> None:
    """Weights that are finite, and a model that computes infinity with them."""
    for parameter in model.parameters():
        parameter.fill_(3e38)


def test_a_model_that_works(random_model: Any) -> None:
    try_model(random_model(dtype=torch.float32))


@pytest.mark.parametrize("family", ["transformer", "recurrent"])
def test_finite_weights_that_compute_nothing_finite(random_model: Any, family: str) -> None:
    settings = {} if family == "transformer" else {"family": family}
    folder: Path = random_model(dtype=torch.float32, change=overflow, **settings)
    with pytest.raises(RegardError, match=r"NaN|infinit"):
        try_model(folder)


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(ModelFolderError):
        try_model(tmp_path / "nothing")
