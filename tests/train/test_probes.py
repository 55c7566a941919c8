"""The probes of a training: looked at often at first, kept to the last bit, thinned beside the model."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from regard.errors import ConfigError, RunError
from regard.inspect.trace import trace_translation
from regard.model_folder.folder import check_sums
from regard.pipelines.model_translator import ModelTranslator
from regard.train import probes
from regard.train.launch import resume, start
from regard.train.probes import GROWTH, Probe, ProbeHistory, ProbeOutput, Snapshot, encode, read_history
from regard.train.run_folder import RunFolder

SENTENCES = "train.probes=['a b c', 'c b']"
RECURRENT = "model={family = 'recurrent', d_model = 16, n_encoder_layers = 1, n_decoder_layers = 1, attention = '%s'}"
ADDITIVE, NONE = RECURRENT % "additive", RECURRENT % "none"


def made_up(*steps: int, size: int = 2) -> ProbeHistory:
    """A history of one probe with these snapshots."""
    weights = np.zeros((1, size, size), np.uint8)
    one = [Snapshot(step, (ProbeOutput(("b",), (0.5,)),), ({"decoder.0.cross.weights": weights},)) for step in steps]
    return ProbeHistory((Probe("a", ("▁a", "</s>")),), tuple(one))


def test_a_run_keeps_its_snapshots_and_the_model_has_the_last(toy_run: Any, tmp_path: Path, heard: Any) -> None:
    folder = RunFolder(tmp_path / "run")
    start(toy_run(SENTENCES), folder, heard)
    history, beside = read_history(folder.probes), read_history(folder.model / "probes.safetensors")
    assert [probe.text for probe in history.probes] == ["a b c", "c b"]
    assert [snapshot.step for snapshot in history.snapshots] == [0, 1, 2, 3, 4, 5, 6, 7, 9, 11]
    assert [snapshot.step for snapshot in beside.snapshots] == [0, 1, 2, 3, 4, 5, 6, 7, 9, 11, 12]
    check_sums(folder.model)
    first, last = history.snapshots[0], history.snapshots[-1]
    assert any((first.maps[0][path] != last.maps[0][path]).any() for path in first.maps[0])


def test_the_last_snapshot_is_that_of_the_final_model(toy_run: Any, tmp_path: Path, heard: Any) -> None:
    """The numbers are those of the model folder, seen through the explorer's own trace."""
    folder = RunFolder(tmp_path / "run")
    start(toy_run(SENTENCES, "train.max_steps=30"), folder, heard)
    history = read_history(folder.model / "probes.safetensors")
    translator = ModelTranslator(folder.model)
    tokenizer = translator.tokenizer
    numbers = {piece: number for number, piece in enumerate(tokenizer.tgt.pieces(range(tokenizer.tgt.size)))}
    for number, probe in enumerate(history.probes):
        written, maps = history.snapshots[-1].outputs[number], history.snapshots[-1].maps[number]
        assert len(written.tgt) == len(written.probabilities)
        [src_ids] = tokenizer.encode_src([probe.text])
        src, tgt = tokenizer.src.pieces(src_ids), [piece for piece in written.tgt if piece != "</s>"]
        tgt_ids = [numbers[piece] for piece in tgt]
        trace = trace_translation(translator.model, src_ids, tgt_ids, src, tgt, ("*.weights",))
        assert probe.src == trace.src_tokens
        assert maps.keys() == trace.values.keys()
        assert {path.partition(".")[2] for path in maps} == {"0.attention.weights", "0.cross.weights"}
        for path, weights_HLM in maps.items():
            _, rows, columns = weights_HLM.shape  # one fewer where the translation was cut
            assert np.array_equal(weights_HLM, np.rint(trace[path][:, :rows, :columns] * 255))


@pytest.mark.parametrize("model", ["model.dropout=0.3", f"{ADDITIVE}"], ids=["transformer", "recurrent"])
def test_looking_changes_nothing(model: str, toy_run: Any, tmp_path: Path, heard: Any) -> None:
    with_probes, without = RunFolder(tmp_path / "with"), RunFolder(tmp_path / "without")
    start(toy_run(model, SENTENCES), with_probes, heard)
    start(toy_run(model), without, heard)
    for name in ("weights.safetensors", "training/optimizer.safetensors"):
        assert (with_probes.checkpoint(12) / name).read_bytes() == (without.checkpoint(12) / name).read_bytes()
    assert not without.probes.exists()
    assert not (without.model / "probes.safetensors").exists()


def test_a_resumed_run_has_the_snapshots_of_an_uninterrupted_one(toy_run: Any, tmp_path: Path, heard: Any) -> None:
    whole, broken = RunFolder(tmp_path / "whole"), RunFolder(tmp_path / "broken")
    start(toy_run(SENTENCES, "train.ema=0.9"), whole, heard)
    start(toy_run(SENTENCES, "train.ema=0.9", "train.max_steps=8"), broken, heard)
    resume(toy_run(SENTENCES, "train.ema=0.9"), broken, heard)
    assert broken.probes.read_bytes() == whole.probes.read_bytes()
    assert (broken.model / "probes.safetensors").read_bytes() == (whole.model / "probes.safetensors").read_bytes()


def test_snapshots_after_the_checkpoint_are_taken_again(toy_run: Any, tmp_path: Path, heard: Any) -> None:
    """The history is written before the checkpoint, and a kill may come between the two."""
    folder = RunFolder(tmp_path / "run")
    start(toy_run(SENTENCES), folder, heard)
    whole = folder.probes.read_bytes()
    for step in (8, 12):
        (folder.checkpoint(step) / "SHA256SUMS").unlink()
        folder.checkpoint(step).rename(tmp_path / f"removed-{step}")
    resume(toy_run(SENTENCES), folder, heard)
    assert folder.probes.read_bytes() == whole


def test_a_training_that_starts_from_a_model_goes_on_with_its_history(toy_run: Any, tmp_path: Path, heard: Any) -> None:
    first, whole, broken = (RunFolder(tmp_path / name) for name in ("first", "whole", "broken"))
    start(toy_run("train.probes=['c b', 'b', 'a b c']"), first, heard)
    again = (SENTENCES, f"train.init_from='{first.model}'")
    start(toy_run(*again), whole, heard)
    remembered, history = read_history(first.model / "probes.safetensors"), read_history(whole.probes)
    assert [probe.text for probe in history.probes] == ["a b c", "c b"]
    old = [snapshot.step for snapshot in remembered.snapshots]
    assert [snapshot.step for snapshot in history.snapshots] == [
        *old,
        14,
        17,
        20,
        23,
    ]  # 2, 5, 8 and 11 of its own steps
    assert history.snapshots[0].outputs == (remembered.snapshots[0].outputs[2], remembered.snapshots[0].outputs[0])
    for path, weights_HLM in remembered.snapshots[3].maps[2].items():
        assert np.array_equal(history.snapshots[3].maps[0][path], weights_HLM)
    beside = read_history(whole.model / "probes.safetensors")
    assert (beside.snapshots[0].step, beside.snapshots[-1].step, len(beside.snapshots)) == (0, 24, 16)
    start(toy_run(*again, "train.max_steps=8"), broken, heard)
    resume(toy_run(*again), broken, heard)
    assert broken.probes.read_bytes() == whole.probes.read_bytes()


def test_a_history_of_other_sentences_is_not_continued(toy_run: Any, tmp_path: Path, heard: Any) -> None:
    first, second = RunFolder(tmp_path / "first"), RunFolder(tmp_path / "second")
    start(toy_run("train.probes=['c b']", "train.max_steps=4"), first, heard)
    start(toy_run(SENTENCES, f"train.init_from='{first.model}'", "train.max_steps=4"), second, heard)
    assert [snapshot.step for snapshot in read_history(second.probes).snapshots] == [0, 1, 2, 3, 4]


def test_other_probes_begin_where_the_run_goes_on(toy_run: Any, tmp_path: Path, heard: Any) -> None:
    folder = RunFolder(tmp_path / "run")
    start(toy_run(SENTENCES, "train.max_steps=8"), folder, heard)
    resume(toy_run("train.probes=['b']"), folder, heard)
    history = read_history(folder.probes)
    assert [probe.text for probe in history.probes] == ["b"]
    assert history.snapshots[0].step == 8


def test_recurrent_models_show_what_attention_they_have(toy_run: Any, tmp_path: Path, heard: Any) -> None:
    additive, none = RunFolder(tmp_path / "additive"), RunFolder(tmp_path / "none")
    start(toy_run(ADDITIVE, SENTENCES), additive, heard)
    snapshot = read_history(additive.probes).snapshots[-1]
    for probe, written, maps in zip(read_history(additive.probes).probes, snapshot.outputs, snapshot.maps, strict=True):
        [(path, weights_HLM)] = maps.items()
        assert path.endswith("cross.weights")
        assert weights_HLM.shape == (1, len(written.tgt), len(probe.src))
    start(toy_run(NONE, SENTENCES), none, heard)
    assert not none.probes.exists()
    assert not (none.model / "probes.safetensors").exists()


def test_an_untrained_model_that_never_ends_is_cut(make_trainer: Callable[..., Any]) -> None:
    trainer = make_trainer(SENTENCES)
    with torch.no_grad():
        trainer.model.output.weight.zero_()
    snapshot = trainer.task.take_snapshot(trainer.history, 0)
    for probe, written, maps in zip(trainer.history.probes, snapshot.outputs, snapshot.maps, strict=True):
        assert len(written.tgt) <= 1.5 * len(probe.src) + 6
        assert maps["decoder.0.cross.weights"].shape == (2, len(written.tgt), len(probe.src))
        assert maps["decoder.0.attention.weights"].shape == (2, len(written.tgt), len(written.tgt))
    assert trainer.model.training


def test_intervals_between_snapshots_grow() -> None:
    history, steps = made_up(), []
    for step in range(100_001):
        if history.is_due(step):
            steps.append(step)
            history = made_up(*steps[-1:])
    assert steps[:8] == list(range(8))
    assert all(after / before < GROWTH + 0.2 for before, after in pairwise(steps[8:]))
    assert len(steps) < 90
    assert not ProbeHistory(()).is_due(0)


def test_a_model_has_sixteen_snapshots_evenly_spaced_in_the_root_of_the_step() -> None:
    history = made_up(*(round(1.15**k) for k in range(25, 80)), 10_000_000)
    few = [snapshot.step for snapshot in made_up(0, *(m.step for m in history.snapshots)).thinned().snapshots]
    assert (len(few), few[0], few[-1]) == (16, 0, 10_000_000)
    short = made_up(*range(10))
    assert short.thinned() == short


def test_the_history_of_a_model_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "MAX_BYTES", 50_000)
    history = made_up(*range(10), size=100)
    thin = history.thinned()
    assert len(encode(thin)) <= 50_000
    assert (thin.snapshots[0].step, thin.snapshots[-1].step) == (0, 9)
    assert len(made_up(*range(10), size=300).thinned().snapshots) == 2  # the first and the last always


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "probes.safetensors"
    history = made_up(0, 5)
    path.write_bytes(encode(history))
    again = read_history(path)
    assert again.probes == history.probes
    assert [dataclasses.replace(m, maps=()) for m in again.snapshots] == [
        dataclasses.replace(m, maps=()) for m in history.snapshots
    ]
    assert np.array_equal(
        again.snapshots[1].maps[0]["decoder.0.cross.weights"], history.snapshots[1].maps[0]["decoder.0.cross.weights"]
    )
    for wrong in (b"", b"not safetensors at all", encode(history)[:-3]):
        path.write_bytes(wrong)
        with pytest.raises(RunError, match="cannot be read"):
            read_history(path)


@pytest.mark.parametrize(("text", "pieces"), [("", 0), ("a " * 200, 400)])
def test_a_probe_that_cannot_be_drawn_is_refused(text: str, pieces: int, make_trainer: Callable[..., Any]) -> None:
    with pytest.raises(ConfigError, match=rf"train\.probes\[1\] = .* has {pieces} tokens"):
        make_trainer(f"train.probes=['a', '{text}']")


def test_an_altered_history_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "probes.safetensors"
    content = encode(made_up(0, 5))
    altered = content[:-1] + bytes([content[-1] ^ 1])
    path.write_bytes(altered)
    with pytest.raises(RunError, match="it was altered or damaged: it does not match its checksum"):
        read_history(path)
