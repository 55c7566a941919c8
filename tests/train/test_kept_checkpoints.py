"""Which checkpoints are kept, which are averaged, and when a run stops because it gets no better."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.config import DecodeConfig, TransformerConfig
from regard.errors import ModelFolderError
from regard.model_folder.folder import CARD, SUMS, ModelDescription, read_description, read_weights, write_model
from regard.train.average import average_weights, write_average
from regard.train.launch import resume, start
from regard.train.run_folder import RunFolder

STUCK = "train.lr=1e-30"  # no update is large enough to move a weight: each validation is like the one before


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path / "run")


@pytest.mark.parametrize("metric", ["loss", "bleu", "chrf"])
@pytest.mark.parametrize("patience", [1, 3])
def test_it_stops_after_so_many_validations_that_are_no_better(
    toy_run: Any, folder: RunFolder, heard: Any, metric: str, patience: int
) -> None:
    run = toy_run(STUCK, f"train.metric={metric}", f"train.patience={patience}", "train.validate_every=2")
    outcome = start(run, folder, heard)
    assert (outcome.ending, outcome.step) == ("stopped early", 2 + 2 * patience)
    assert [report.best for report in heard.validations] == [True] + [False] * patience
    assert folder.model.exists()


@pytest.mark.parametrize("metric", ["loss", "bleu", "chrf"])
def test_best_is_by_the_metric_that_is_watched(toy_run: Any, folder: RunFolder, heard: Any, metric: str) -> None:
    run = toy_run(f"train.metric={metric}", "train.max_steps=40", "train.lr=0.03", "train.validate_every=4")
    start(run, folder, heard)
    best = None
    for report in heard.validations:
        goodness = {"loss": -report.nll, "bleu": report.bleu, "chrf": report.chrf}[metric]
        assert report.best == (best is None or goodness > best)
        best = goodness if best is None else max(best, goodness)
    assert {report.best for report in heard.validations} == {True, False}


def test_without_patience_it_never_stops_early(toy_run: Any, folder: RunFolder, heard: Any) -> None:
    assert start(toy_run(STUCK, "train.validate_every=1"), folder, heard).ending == "finished"


def test_the_best_is_kept_beside_the_last(toy_run: Any, folder: RunFolder, heard: Any) -> None:
    run = toy_run(STUCK, "train.validate_every=2", "train.keep_checkpoints=2", "train.average_checkpoints=1")
    start(run, folder, heard)
    assert folder.saved_steps() == [2, 10, 12]
    # The weights did not move, but what began at zero did: by this the checkpoints are told apart.
    best, last, model = (read_weights(path) for path in (folder.checkpoint(2), folder.checkpoint(12), folder.model))
    assert any((best[name] != last[name]).any() for name in best)
    for name in best:
        np.testing.assert_array_equal(model[name], best[name])
    assert "\n2 steps" in (folder.model / CARD).read_text()
    assert "mean of" not in (folder.model / CARD).read_text()


def test_another_metric_has_another_best(toy_run: Any, folder: RunFolder, heard: Any) -> None:
    start(toy_run("train.metric=chrf", "train.max_steps=8"), folder, heard)
    heard.validations.clear()
    resume(toy_run("train.metric=loss"), folder, heard)  # −loss is below any chrF
    assert [report.best for report in heard.validations] == [True]


def test_what_was_best_by_another_metric_is_not_the_model(toy_run: Any, folder: RunFolder, heard: Any) -> None:
    """Of a run that is over, gone on with: it is not validated again."""
    settings = (
        "train.max_steps=6",
        "train.validate_every=2",
        "train.average_checkpoints=1",
        "train.keep_checkpoints=5",
        "train.lr=0.5",
    )
    start(toy_run("train.metric=loss", *settings), folder, heard)
    assert not heard.validations[-1].best, "with a rate so high it gets worse, or this test shows nothing"
    resume(toy_run("train.metric=chrf", *settings), folder, heard)
    last, model = read_weights(folder.checkpoint(6)), read_weights(folder.model)
    for name in last:
        np.testing.assert_array_equal(model[name], last[name])


def test_checkpoints_between_validations(toy_run: Any, folder: RunFolder, heard: Any) -> None:
    start(toy_run("train.checkpoint_every=3", "train.validate_every=5", "train.keep_checkpoints=9"), folder, heard)
    assert folder.saved_steps() == [3, 5, 6, 9, 10, 12]
    assert [report.step for report in heard.validations] == [5, 10, 12]


def test_the_model_is_the_mean_of_the_last_checkpoints(toy_run: Any, folder: RunFolder, heard: Any) -> None:
    start(toy_run("train.validate_every=2", "train.average_checkpoints=2"), folder, heard)
    assert folder.saved_steps()[-3:] == [8, 10, 12]
    last = [read_weights(folder.checkpoint(step)) for step in (10, 12)]
    model = read_weights(folder.model)
    assert model.keys() == last[0].keys()
    for name, weight in model.items():
        mean = np.mean([weights[name].astype(np.float64) for weights in last], axis=0).astype(np.float32)
        np.testing.assert_array_equal(weight, mean)
        assert weight.dtype == np.float32
    assert "mean of the last 2 checkpoints" in (folder.model / CARD).read_text()
    assert read_description(folder.model) == read_description(folder.checkpoint(12))


def test_averages_of_unlike_models_are_refused(toy_run: Any, folder: RunFolder, heard: Any, tmp_path: Path) -> None:
    start(toy_run("train.max_steps=4"), folder, heard)
    wide, foreign = RunFolder(tmp_path / "wide"), RunFolder(tmp_path / "foreign")
    start(toy_run("train.max_steps=1", "model.d_ff=64"), wide, heard)
    start(toy_run("train.max_steps=1", "data.tokenizer.vocab_size=310"), foreign, heard)
    for other, words in ((wide, r"model\.d_ff is 64 and 32"), (foreign, "different tokenizers")):
        with pytest.raises(ModelFolderError, match=words):
            write_average([folder.model, other.model], tmp_path / "out")
        assert not (tmp_path / "out").exists()
    with pytest.raises(ModelFolderError, match="different shape"):
        average_weights([folder.model, wide.model])


def test_an_existing_folder_is_refused_before_models_are_read(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with pytest.raises(ModelFolderError, match="out already exists; choose another folder with -o"):
        write_average([tmp_path / "there is no such model"], tmp_path / "out")


def test_the_mean_of_many_does_not_lose_the_small(tmp_path: Path) -> None:
    description = ModelDescription(TransformerConfig(), DecodeConfig(), "", "", False, {"tokenizer.model": b"x"})
    folders = []
    for index, value in enumerate([1e8, 1.0, -1e8, 1.0]):
        folders.append(tmp_path / str(index))
        folders[-1].mkdir()
        write_model(folders[-1], description, {"w": np.array([value], np.float32)}, "")
        assert (folders[-1] / SUMS).exists()
    assert average_weights(folders)["w"].tolist() == [0.5]
