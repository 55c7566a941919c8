"""The moving average: what it is, and that training does not go on from it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from torch import nn

from regard.model_folder.folder import read_weights
from regard.train.checkpoint import TRAINED
from regard.train.ema import MovingAverage
from regard.train.launch import resume


def test_it_is_the_naive_recursion() -> None:
    torch.manual_seed(1)
    model = nn.Linear(3, 2).double()
    average = MovingAverage(model, 0.75)
    naive = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    decays = []
    for step in range(1, 40):
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn_like(parameter))
        average.update(model, step)
        decays.append(min(0.75, (1 + step) / (10 + step)))
        for name, parameter in model.named_parameters():
            naive[name] = decays[-1] * naive[name] + (1 - decays[-1]) * parameter.detach()
            torch.testing.assert_close(average.averages[name], naive[name], rtol=1e-12, atol=1e-12)
    assert decays[0] < decays[-1] == 0.75


def test_within_the_block_the_model_has_the_average_and_its_own_weights_after() -> None:
    model = nn.Linear(3, 2)
    average = MovingAverage(model, 0.5)
    own = {name: torch.randn_like(parameter) for name, parameter in model.named_parameters()}
    for name, parameter in model.named_parameters():
        parameter.data.copy_(own[name])

    def look() -> None:
        with average.applied(model):
            for name, parameter in model.named_parameters():
                assert torch.equal(parameter, average.averages[name])
                assert not torch.equal(parameter, own[name])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        look()
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, own[name])


def test_the_model_folder_has_the_average_and_training_goes_on_from_the_weights(make_trainer: Any) -> None:
    plain, averaged = (make_trainer(f"train.ema={decay}", "model.dropout=0.0") for decay in (0.0, 0.9))
    plain.train()
    averaged.train()
    assert [r.loss for r in plain.listener.steps] == [r.loss for r in averaged.listener.steps]
    assert [r.nll for r in plain.listener.validations] != [r.nll for r in averaged.listener.validations]
    for step in (4, 8, 12):
        folder = averaged.folder.checkpoint(step)
        trained, offered = load_file(folder / TRAINED), read_weights(folder)
        raw = read_weights(plain.folder.checkpoint(step))
        assert trained.keys() == offered.keys() == raw.keys()
        for name in raw:
            np.testing.assert_array_equal(trained[name], raw[name])
        assert any((offered[name] != raw[name]).any() for name in raw)
    for name, average in averaged.average.averages.items():
        np.testing.assert_array_equal(offered[name], average.numpy())


def test_an_average_begun_on_resuming_begins_at_the_weights(make_trainer: Any, heard: Any, toy_run: Any) -> None:
    trainer = make_trainer("train.max_steps=8")
    trainer.train()
    resume(toy_run("train.ema=0.999", "train.max_steps=9"), trainer.folder, heard)
    before = read_weights(trainer.folder.checkpoint(8))
    folder = trainer.folder.checkpoint(9)
    after, averages = load_file(folder / TRAINED), read_weights(folder)
    decay = 10 / 19  # of step 9: the average is still young
    for name in before:
        expected = decay * before[name].astype(np.float64) + (1 - decay) * after[name]
        np.testing.assert_allclose(averages[name], expected, rtol=1e-5, atol=1e-7)
