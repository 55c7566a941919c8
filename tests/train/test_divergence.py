"""A loss that is no longer a number ends the run, and never reaches the disk."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from regard.data.toy import toy_pairs
from regard.errors import TrainingDiverged
from regard.model_folder.folder import read_weights
from regard.train.launch import resume, start
from regard.train.loop import Trainer
from regard.train.run_folder import RunFolder

TOO_FAST = ("train.lr=1e30", "train.warmup_steps=1")


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path / "run")


def all_finite(folder: RunFolder) -> bool:
    files = [read_weights(folder.checkpoint(step)) for step in folder.saved_steps()]
    return all(np.isfinite(weight).all() for weights in files for weight in weights.values())


def test_the_step_the_batch_and_the_last_good_checkpoint_are_named(
    regard: Any, recipe: Path, folder: RunFolder, heard: Any, toy_run: Any
) -> None:
    words = ["train", recipe, "--run", folder.path]
    assert regard(*words, "--set", "train.max_steps=4").wait()[0] == 0
    fast = [word for setting in (*TOO_FAST, "train.validate_every=100") for word in ("--set", setting)]
    code, out, errors = regard(*words, "--resume", *fast).wait()
    assert code == 6
    assert errors.startswith("regard: step 6: the loss is nan, the gradient norm nan. ")
    assert "The batch is number 5 of pool 0 in epoch 1, with " in errors
    assert any(repr(src) in errors for src, _ in toy_pairs("copy", 150, 1))
    assert f"the last good checkpoint is {folder.checkpoint(4)}. " in errors
    assert "--resume --set train.lr=5e+29" in errors
    assert out.rstrip().splitlines()[-1].startswith("step       5 ")
    assert folder.saved_steps() == [4]
    assert all_finite(folder)
    outcome = resume(toy_run(), folder, heard)
    assert (outcome.ending, outcome.step) == ("finished", 12)
    assert all_finite(folder)


def test_without_a_checkpoint_the_error_says_so(toy_run: Any, folder: RunFolder, heard: Any) -> None:
    with pytest.raises(TrainingDiverged, match=r"step 2: the loss is nan.*; no checkpoint yet\."):
        start(toy_run(*TOO_FAST), folder, heard)
    assert folder.saved_steps() == []


def test_a_nan_validation_loss_is_not_saved(toy_run: Any, folder: RunFolder, heard: Any) -> None:
    with pytest.raises(TrainingDiverged, match="step 1: the validation loss is nan; no checkpoint yet"):
        start(toy_run(*TOO_FAST, "train.validate_every=1"), folder, heard)
    assert folder.saved_steps() == []
    assert heard.validations == []


def test_nan_weights_are_not_saved(toy_run: Any, folder: RunFolder, heard: Any) -> None:
    with pytest.raises(TrainingDiverged, match="step 1: some weights are NaN or infinite"):
        start(toy_run("train.lr=1e300", "train.warmup_steps=1", "train.checkpoint_every=1"), folder, heard)
    assert folder.saved_steps() == []


def test_a_gradient_that_is_infinite_ends_the_run(make_trainer: Callable[..., Trainer]) -> None:
    """The loss is finite; a hook damages the gradient of one weight."""
    trainer = make_trainer()
    next(iter(trainer.names)).register_hook(lambda gradient: gradient * torch.inf)
    with pytest.raises(TrainingDiverged, match=r"^step 1: the loss is \d\.\d+, the gradient norm (nan|inf)\. "):
        trainer.train()
    assert trainer.folder.saved_steps() == []
