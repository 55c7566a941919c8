"""Starting, and going on: what is refused, what is said first, what comes out."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.config import ONE_VOCABULARY, CorpusConfig, RunConfig
from regard.config.recipe import load_recipe, run_from_dict
from regard.errors import ConfigError, RunError
from regard.model_folder.atomic import default_cache
from regard.model_folder.folder import read_description, read_weights
from regard.tokenizers.pair import TokenizerPair
from regard.train.checkpoint import find_damage
from regard.train.launch import resume, start
from regard.train.run_folder import RunFolder

Contents = Callable[[Path], dict[str, bytes]]


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path / "run")


def test_a_run_leaves_a_model_and_its_history(toy_run: Any, folder: RunFolder, heard: Any) -> None:
    outcome = start(toy_run(), folder, heard)
    assert (outcome.ending, outcome.step, outcome.model) == ("finished", 12, folder.model)
    assert folder.saved_steps() == [4, 8, 12]
    assert [report.step for report in heard.steps] == list(range(1, 13))
    assert [report.step for report in heard.validations] == [4, 8, 12]
    assert [row["step"] for row in folder.read_metrics() if row["kind"] == "validation"] == [4, 8, 12]
    sizes = read_description(folder.model).model
    assert folder.read_config() == dataclasses.replace(toy_run(), model=sizes)
    assert heard.steps[-1].loss < heard.steps[0].loss


def test_a_run_is_never_overwritten(regard: Any, recipe: Path, folder: RunFolder, contents: Contents) -> None:
    assert regard("train", recipe, "--run", folder.path).wait()[0] == 0
    before = contents(folder.path)
    code, out, errors = regard("train", recipe, "--run", folder.path, "--set", "train.seed=2").wait()
    assert (code, out) == (5, "")
    assert errors.startswith(f"regard: {folder.path} already holds a run. Resume it with --resume")
    assert contents(folder.path) == before


def test_a_folder_that_holds_something_else_is_no_obstacle(toy_run: Any, folder: RunFolder, heard: Any) -> None:
    folder.checkpoints.mkdir(parents=True)
    (folder.path / "notes.txt").write_text("mine")
    assert start(toy_run("train.max_steps=2"), folder, heard).ending == "finished"
    assert (folder.path / "notes.txt").read_text() == "mine"


def test_nothing_to_resume(regard: Any, recipe: Path, tmp_path: Path) -> None:
    code, out, errors = regard("train", recipe, "--run", tmp_path / "none", "--resume").wait()
    assert (code, out) == (5, "")
    assert errors == f"regard: no run to resume at {tmp_path / 'none'}: it has no config.json\n"
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ("{", "is not a valid run configuration"),
        ("[]", "is not a valid run configuration"),
        ("{}", "format_version"),
        ('{"format_version": 99}', "was written by a newer Regard (format 99); update Regard"),
        ('{"format_version": 1, "train": {"sede": 1}}', "did you mean 'seed'?"),
    ],
)
def test_a_run_whose_settings_cannot_be_read(
    toy_run: Any, folder: RunFolder, heard: Any, config: str, words: str
) -> None:
    folder.path.mkdir()
    folder.config.write_text(config)
    with pytest.raises(RunError) as caught:
        resume(toy_run(), folder, heard)
    assert words in str(caught.value)


def test_a_run_without_a_checkpoint_starts_again(
    toy_run: Any, folder: RunFolder, heard: Any, tmp_path: Path, contents: Contents
) -> None:
    start(toy_run(), folder, heard)
    bare = RunFolder(tmp_path / "bare")
    bare.path.mkdir()
    bare.config.write_bytes(folder.config.read_bytes())
    bare.metrics.write_bytes(folder.metrics.read_bytes()[:1000])
    outcome = resume(toy_run(), bare, heard)
    assert "no checkpoint yet: starting from the beginning" in heard.messages
    assert outcome.ending == "finished"
    assert contents(bare.model) == contents(folder.model)
    assert [row["step"] for row in bare.read_metrics() if row["kind"] == "step"] == list(range(1, 13))


def test_a_change_is_said_before_it_takes_effect(toy_run: Any, folder: RunFolder, heard: Any) -> None:
    start(toy_run("train.max_steps=4"), folder, heard)
    heard.messages.clear()
    changed = toy_run("train.max_steps=6", "train.lr=0.5", "train.schedule=constant", "model.dropout=0.3")
    changed = dataclasses.replace(
        changed, data=dataclasses.replace(changed.data, train=(dataclasses.replace(changed.data.train[0], size=99),))
    )
    resume(changed, folder, heard)
    assert heard.messages[:5] == [
        "changed: data.train.0.size: 150 → 99",
        "changed: model.dropout: 0.1 → 0.3",
        "changed: train.lr: 0.003 → 0.5",
        "changed: train.max_steps: 4 → 6",
        "changed: train.schedule: 'inverse_sqrt' → 'constant'",
    ]
    assert heard.messages.index("resumed at step 4, epoch 1") < heard.messages.index("step 5")
    assert "99" in heard.messages[5]  # the pairs are prepared after that
    assert [report.lr for report in heard.steps[-2:]] == [0.5, 0.5]
    assert folder.read_config().train.lr == 0.5
    assert read_description(folder.model).model.dropout == 0.3


@pytest.mark.parametrize(
    "setting",
    [
        "model.d_model=32",
        "model.n_encoder_layers=2",
        "model.norm_order=pre",
        "data.tokenizer.vocab_size=310",
        "data.tokenizer.kind=unigram",
        "data.lowercase=true",
        "train.optimizer=adafactor",
    ],
)
def test_another_model_is_refused(
    toy_run: Any, folder: RunFolder, heard: Any, contents: Contents, setting: str
) -> None:
    start(toy_run("train.max_steps=4"), folder, heard)
    before = contents(folder.path)
    with pytest.raises(RunError) as caught:
        resume(toy_run(setting, "model.dropout=0.3"), folder, heard)
    name = setting.partition("=")[0]
    assert f"cannot be resumed: {name} changed, and the trained weights depend on it" in str(caught.value)
    assert "Start a new run with --run FOLDER." in str(caught.value)
    assert contents(folder.path) == before


def test_tokenizer_files_may_move_but_not_change(toy_run: Any, folder: RunFolder, heard: Any, tmp_path: Path) -> None:
    start(toy_run("train.max_steps=4"), folder, heard)
    moved, other = tmp_path / "moved.model", tmp_path / "other.model"
    moved.write_bytes((folder.model / "tokenizer.model").read_bytes())
    start(toy_run("train.max_steps=1", "data.tokenizer.vocab_size=320"), RunFolder(tmp_path / "other"), heard)
    other.write_bytes((tmp_path / "other" / "model" / "tokenizer.model").read_bytes())
    with pytest.raises(RunError, match=r"data\.tokenizer\.files changed"):
        resume(toy_run(f'data.tokenizer.files=["{other}"]'), folder, heard)
    assert resume(toy_run(f'data.tokenizer.files=["{moved}"]'), folder, heard).step == 12
    with pytest.raises(RunError, match=r"data\.tokenizer\.files changed"):
        resume(toy_run(), folder, heard)


def test_a_finished_run_says_so_and_leaves_the_model(
    toy_run: Any, folder: RunFolder, heard: Any, contents: Contents
) -> None:
    start(toy_run(), folder, heard)
    before = contents(folder.path)
    heard.messages.clear()
    outcome = resume(toy_run(), folder, heard)
    assert outcome == (outcome.__class__)("finished", 12, folder.model)
    assert (
        "the run is already complete (finished); raise train.max_steps or train.max_epochs to continue"
        in heard.messages
    )
    assert contents(folder.path) == before


def test_with_more_steps_a_finished_run_goes_on(
    toy_run: Any, folder: RunFolder, heard: Any, tmp_path: Path, contents: Contents
) -> None:
    start(toy_run("train.max_steps=8"), folder, heard)
    outcome = resume(toy_run(), folder, heard)
    assert (outcome.ending, outcome.step) == ("finished", 12)
    longer = RunFolder(tmp_path / "longer")
    start(toy_run(), longer, heard)
    assert contents(longer.model) == contents(folder.model)


def test_a_run_that_stopped_early_or_out_of_time_is_over_too(toy_run: Any, folder: RunFolder, heard: Any) -> None:
    stuck = ("train.lr=1e-30", "train.patience=1")
    assert start(toy_run(*stuck), folder, heard).ending == "stopped early"
    before = folder.saved_steps()
    assert resume(toy_run(*stuck), folder, heard).ending == "stopped early"
    assert "the run is already complete (stopped early); raise train.patience to continue" in heard.messages
    assert folder.saved_steps() == before == [4, 8]
    assert resume(toy_run(*stuck, "train.max_minutes=1e-9", "train.patience=9"), folder, heard).ending == "time is up"
    assert folder.saved_steps() == before


def test_time_is_up(toy_run: Any, folder: RunFolder, heard: Any) -> None:
    outcome = start(toy_run("train.max_minutes=1e-9"), folder, heard)
    assert (outcome.ending, outcome.step) == ("time is up", 1)
    assert [report.step for report in heard.validations] == [1]
    assert folder.model.exists()


def test_epochs_end_a_run_and_are_when_it_validates(toy_run: Any, folder: RunFolder, heard: Any) -> None:
    outcome = start(toy_run("train.max_epochs=2", "train.max_steps=1000", "train.validate_every=0"), folder, heard)
    assert outcome.ending == "finished"
    assert [report.epoch for report in heard.validations] == [1, 2]
    assert heard.validations[-1].step == outcome.step == 2 * heard.validations[0].step


def test_a_damaged_checkpoint_among_those_that_are_averaged(toy_run: Any, folder: RunFolder, heard: Any) -> None:
    start(toy_run("train.keep_checkpoints=3", "train.average_checkpoints=3"), folder, heard)
    first = folder.checkpoint(folder.saved_steps()[0])
    weights = first / "weights.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-100] + bytes(100))
    with pytest.raises(RunError, match=f"the checkpoint {first} cannot be read"):
        resume(toy_run("train.keep_checkpoints=3", "train.average_checkpoints=3"), folder, heard)


def test_a_model_to_start_from_has_the_same_case(toy_run: Any, tmp_path: Path, heard: Any) -> None:
    start(toy_run("train.max_steps=1"), RunFolder(tmp_path / "first"), heard)
    init = f"train.init_from={tmp_path / 'first' / 'model'}"
    with pytest.raises(ConfigError, match=r"was trained with data\.lowercase = false: set it to the same value here"):
        start(toy_run(init, "data.lowercase=true"), RunFolder(tmp_path / "second"), heard)
    assert not (tmp_path / "second").exists()


def test_what_cannot_be_built_leaves_no_run_behind(toy_run: Any, folder: RunFolder, heard: Any) -> None:
    with pytest.raises(ConfigError, match=r"train\.probes\[0\]"):
        start(toy_run('train.probes=[""]'), folder, heard)
    assert not folder.path.exists()
    assert start(toy_run("train.max_steps=1"), folder, heard).ending == "finished"


def test_a_checkpoint_that_was_better_than_the_mean_is_named(toy_run: Any, tmp_path: Path, heard: Any) -> None:
    """While the loss still falls, the last state is better than its mean with earlier ones."""
    start(toy_run(), RunFolder(tmp_path / "mean"), heard)
    assert [report.best for report in heard.validations] == [True] * 3
    alone = f"step 12 alone had loss {heard.validations[-1].nll:.4g}; train.average_checkpoints = 1 takes it"
    assert heard.messages[-1] == alone
    start(toy_run("train.average_checkpoints=1"), RunFolder(tmp_path / "best"), heard)
    assert heard.messages[-1].startswith("final model: checkpoint of step 12")


def test_a_text_that_changed_is_said_before_the_run_goes_on(toy_run: Any, tmp_path: Path, heard: Any) -> None:
    for name in ("a", "b"):
        lines = [f"{word} {name}\t{name} {word}\n" for word in ("red", "green", "blue") * 20]
        (tmp_path / f"{name}.tsv").write_text("".join(lines))
    corpora = [{"file": str(tmp_path / f"{name}.tsv")} for name in ("a", "b")]

    def run(steps: int) -> RunConfig:
        toy: RunConfig = toy_run(f"train.max_steps={steps}")
        train = tuple(CorpusConfig(**corpus) for corpus in corpora)
        return dataclasses.replace(toy, data=dataclasses.replace(toy.data, train=train))

    folder = RunFolder(tmp_path / "run")
    start(run(1), folder, heard)
    resume(run(2), folder, heard)
    assert not any("the text of" in message for message in heard.messages)
    with (tmp_path / "b.tsv").open("a") as file:
        file.write("one more\tmore one\n")
    resume(run(3), folder, heard)
    said = f"changed: the text of {tmp_path.name}/b.tsv"
    assert [message for message in heard.messages if "the text of" in message] == [said]
    assert heard.messages.index(said) < heard.messages.index("step 3")
    resume(run(4), folder, heard)
    folder.corpora.unlink()
    resume(run(5), folder, heard)
    assert heard.messages.count(said) == 1


@pytest.mark.parametrize("limit", [("train.max_steps=12",), ("train.max_epochs=3", "train.max_steps=1000")])
def test_the_rate_cools_down_towards_the_end_of_the_run(
    toy_run: Any, folder: RunFolder, heard: Any, limit: tuple[str, ...]
) -> None:
    """Whichever limit ends it; and it is the last part alone that differs from a run without."""
    settings = ("train.schedule=constant", "train.warmup_steps=1", "train.lr=1e-3", "train.log_every=1", *limit)
    start(toy_run(*settings, "train.cooldown=0.5"), folder, heard)
    rates = [report.lr for report in heard.steps]
    half = len(rates) // 2
    assert half > 1
    assert rates[:half] == [1e-3] * half
    assert rates[half + 1 :] == sorted(rates[half + 1 :], reverse=True)
    assert 0 < rates[-1] < 3e-4


def test_how_long_an_epoch_is_is_measured_once_one_has_ended(toy_run: Any, folder: RunFolder, heard: Any) -> None:
    """With sampled subwords it has more tokens than the task expects: the rate would be 0 long before the end."""
    settings = ("train.schedule=constant", "train.warmup_steps=1", "train.lr=1e-3", "train.log_every=1")
    sampled = ("data.tokenizer.dropout=0.5", "train.max_epochs=4", "train.max_steps=1000", "train.cooldown=1.0")
    start(toy_run(*settings, *sampled), folder, heard)
    rates = [report.lr for report in heard.steps]
    assert sum(rate == 0 for rate in rates) <= 1
    assert rates[-1] < 2e-4


def test_a_cosine_without_decay_is_reported(toy_run: Any, tmp_path: Path, heard: Any) -> None:
    short = ("train.schedule=cosine", "train.max_minutes=1e-6", "train.validate_every=1000")
    start(toy_run(*short, "train.max_steps=100000"), RunFolder(tmp_path / "a"), heard)
    assert any("the cosine schedule ends at train.max_steps = 100,000" in message for message in heard.messages)
    heard.messages.clear()
    start(toy_run(*short, "train.max_steps=1000"), RunFolder(tmp_path / "b"), heard)
    assert not any("the cosine schedule ends" in message for message in heard.messages)


def test_damaged_checkpoints_are_set_aside_and_the_one_before_is_as_good(
    toy_run: Any, folder: RunFolder, heard: Any, contents: Contents
) -> None:
    start(toy_run("train.ema=0.9"), folder, heard)
    model, last = contents(folder.model), folder.checkpoint(12)
    saved = contents(last)
    for name, whole in saved.items():
        middle = len(whole) // 2
        altered = whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :]
        for damaged in (None, altered):
            (last / name).unlink()
            if damaged is not None:
                (last / name).write_bytes(damaged)
            assert find_damage(last) is not None
            (last / name).write_bytes(whole)
    (last / "training/state.json").write_bytes(saved["training/state.json"].replace(b'"step": 12', b'"step": 14'))
    assert resume(toy_run("train.ema=0.9"), folder, heard).step == 12
    assert "resumed at step 8, epoch 1" in heard.messages
    aside = folder.checkpoints / "damaged-step-00000012"
    [said] = [message for message in heard.messages if message.startswith("damaged checkpoint: ")]
    assert str(last / "training/state.json") in said
    assert said.endswith(f"it is set aside as {aside}")
    assert (aside / "weights.safetensors").read_bytes() == saved["weights.safetensors"]
    assert contents(folder.model) == model
    assert folder.set_aside(12).name == "damaged-step-00000012-2"


def test_without_a_whole_checkpoint_nothing_is_touched(
    toy_run: Any, folder: RunFolder, heard: Any, contents: Contents
) -> None:
    start(toy_run(), folder, heard)
    for step in folder.saved_steps():
        (folder.checkpoint(step) / "training/optimizer.safetensors").unlink()
    before = contents(folder.path)
    with pytest.raises(RunError) as caught:
        resume(toy_run(), folder, heard)
    assert str(caught.value).startswith(f"{folder.path} cannot be resumed: none of its checkpoints is whole.")
    assert all(str(folder.checkpoint(step)) in str(caught.value) for step in (4, 8, 12))
    assert contents(folder.path) == before


def test_settings_that_were_altered_on_disk_are_refused(toy_run: Any, folder: RunFolder, heard: Any) -> None:
    start(toy_run("train.max_steps=4"), folder, heard)
    folder.config.write_bytes(folder.config.read_bytes().replace(b'"seed": 1', b'"seed": 3', 1))
    with pytest.raises(RunError, match=rf"{folder.config} was altered or damaged: .* delete its entry sha256"):
        resume(toy_run(), folder, heard)
    stored = json.loads(folder.config.read_text("utf-8"))
    del stored["sha256"]  # as version 0.1 wrote it
    folder.config.write_text(json.dumps(stored), "utf-8")
    assert resume(toy_run(), folder, heard).step == 12


def test_changed_validation_text_is_said(toy_run: Any, tmp_path: Path, folder: RunFolder, heard: Any) -> None:
    """Of the same size and the same time."""
    text = tmp_path / "valid.tsv"
    text.write_text("a b\tb a\nc a\ta c\n", "utf-8")
    status = text.stat()

    def run(steps: int) -> RunConfig:
        toy: RunConfig = toy_run(f"train.max_steps={steps}")
        return dataclasses.replace(toy, data=dataclasses.replace(toy.data, valid=(CorpusConfig(file=str(text)),)))

    start(run(4), folder, heard)
    resume(run(5), folder, heard)
    said = f"changed: the validation text of {tmp_path.name}/valid.tsv"
    assert said not in heard.messages
    text.write_text("a b\tb a\nc b\tb c\n", "utf-8")
    os.utime(text, ns=(status.st_atime_ns, status.st_mtime_ns))
    resume(run(6), folder, heard)
    assert heard.messages.count(said) == 1


def test_the_texts_of_a_run_of_version_0_1_are_compared_by_size_and_time(
    toy_run: Any, tmp_path: Path, folder: RunFolder, heard: Any
) -> None:
    text = tmp_path / "train.tsv"
    text.write_text("".join(f"{word} a\ta {word}\n" for word in ("red", "green", "blue") * 20), "utf-8")
    toy: RunConfig = toy_run("train.max_steps=2")
    run = dataclasses.replace(toy, data=dataclasses.replace(toy.data, train=(CorpusConfig(file=str(text)),)))
    start(run, folder, heard)
    status = text.stat()
    said = f"changed: the text of {tmp_path.name}/train.tsv (path, size or time of its files)"
    for time in (status.st_mtime_ns, status.st_mtime_ns - 1):
        former = [{"files": [[str(text), status.st_size, time]], "fields": ["src", "tgt"]}]
        folder.corpora.write_text(json.dumps(former), "utf-8")
        resume(run, folder, heard)
        assert (said in heard.messages) is (time != status.st_mtime_ns)


def test_damaged_fingerprints_of_the_texts_are_named(toy_run: Any, folder: RunFolder, heard: Any) -> None:
    start(toy_run("train.max_steps=2"), folder, heard)
    folder.corpora.write_bytes(folder.corpora.read_bytes().replace(b'"size": 150', b'"size": 151'))
    resume(toy_run("train.max_steps=3"), folder, heard)
    [said] = [message for message in heard.messages if "whether the texts changed" in message]
    assert said.startswith(f"{folder.corpora} was altered or damaged")


def test_without_validation_data_the_last_checkpoint_is_the_model(toy_run: Any, folder: RunFolder, heard: Any) -> None:
    run: RunConfig = toy_run("train.average_checkpoints=1")
    run = dataclasses.replace(run, data=dataclasses.replace(run.data, valid=()))
    start(run, folder, heard)
    assert heard.validations == []
    last, model = read_weights(folder.checkpoint(12)), read_weights(folder.model)
    for name, weight in model.items():
        np.testing.assert_array_equal(weight, last[name])


@pytest.mark.parametrize("setting", ["data.tokenizer.joint=false", 'data.tokenizer.files=["a.model", "b.model"]'])
def test_one_matrix_for_two_vocabularies_is_refused_when_the_recipe_is_read(
    recipe: Path, toy_run: Any, folder: RunFolder, heard: Any, setting: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        load_recipe(recipe, [setting])
    assert str(caught.value) == f"{recipe}: {ONE_VOCABULARY}"
    assert load_recipe(recipe, [setting, "model.tie_embeddings=output"]).model.tie_embeddings == "output"
    assert run_from_dict({"data": {"tokenizer": {"files": ["a.model"], "joint": False}}}).model.tie_embeddings == "all"


def test_two_vocabularies(toy_run: Any, folder: RunFolder, heard: Any) -> None:
    start(toy_run("data.tokenizer.joint=false", "model.tie_embeddings=output", "train.max_steps=4"), folder, heard)
    description = read_description(folder.model)
    assert not TokenizerPair.from_files(description.tokenizer, False).joint
    assert resume(toy_run("data.tokenizer.joint=false", "model.tie_embeddings=output"), folder, heard).step == 12


def test_more_averaged_than_kept_is_refused(recipe: Path) -> None:
    words = r"train\.average_checkpoints = 5 but only train\.keep_checkpoints = 2 checkpoints are kept"
    with pytest.raises(ConfigError, match=words):
        load_recipe(recipe, ["train.average_checkpoints=5", "train.keep_checkpoints=2"])
    assert (
        load_recipe(recipe, ["train.average_checkpoints=2", "train.keep_checkpoints=2"]).train.average_checkpoints == 2
    )


def test_the_cache_is_ours(cache: Path) -> None:
    assert default_cache() == cache


def test_a_metric_needs_translations() -> None:
    with pytest.raises(ConfigError, match="valid_translations"):
        run_from_dict({"train": {"metric": "bleu", "valid_translations": 0}})


def test_two_processes_cannot_train_in_one_folder(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    with folder.locked(), pytest.raises(RunError, match="another process"), folder.locked():
        pass
    with folder.locked():  # and it is free again
        pass


def test_a_run_from_a_model_that_has_no_checkpoint_yet_starts_from_it_again(
    toy_run: Any, folder: RunFolder, tmp_path: Path, heard: Any, contents: Contents
) -> None:
    start(toy_run("train.max_steps=2"), RunFolder(tmp_path / "first"), heard)
    settings = (f"train.init_from={tmp_path / 'first' / 'model'}", "train.max_steps=2", "train.ema=0.5")
    start(toy_run(*settings), folder, heard)
    bare = RunFolder(tmp_path / "bare")
    bare.path.mkdir()
    bare.config.write_bytes(folder.config.read_bytes())
    resume(toy_run(*settings), bare, heard)
    said = [message for message in heard.messages if message.startswith("initialised ")]
    assert len(said) == 2
    assert not said[0].startswith("initialised 0 of ")
    assert contents(bare.model) == contents(folder.model)


def test_a_mean_without_validation_is_compared_with_nothing(toy_run: Any, folder: RunFolder, heard: Any) -> None:
    run: RunConfig = toy_run("train.checkpoint_every=4", "train.validate_every=0")
    start(dataclasses.replace(run, data=dataclasses.replace(run.data, valid=())), folder, heard)
    assert folder.saved_steps() == [4, 8, 12]
    assert heard.messages[-1].startswith("final model: ")
    assert not any("alone had" in message for message in heard.messages)


def test_validation_pairs_that_are_too_long_for_the_model_are_left_out(
    toy_run: Any, folder: RunFolder, heard: Any, tmp_path: Path
) -> None:
    (tmp_path / "valid.tsv").write_text("a b\tb a\n" + "a b c " * 2000 + "\tb a\n")
    run: RunConfig = toy_run("train.max_steps=1", 'model.position="learned"', "train.average_checkpoints=1")
    valid = (CorpusConfig(file=str(tmp_path / "valid.tsv")),)
    start(dataclasses.replace(run, data=dataclasses.replace(run.data, valid=valid)), folder, heard)
    assert "excluded 1 validation pairs that are too long for the model" in heard.messages
