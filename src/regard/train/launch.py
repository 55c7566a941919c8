"""From a recipe to a model: prepare the data, train or go on training, write the model that comes out."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from regard.config import RunConfig, TrainConfig
from regard.config.recipe import differences
from regard.data.corpus import corpus_name, expand
from regard.data.prepare import ready_tokenizer
from regard.data.texts import identity
from regard.errors import ConfigError, RunError
from regard.model_folder.atomic import atomic_folder, default_cache
from regard.model_folder.folder import ModelDescription, check_sums, read_description, write_model
from regard.train.average import average_weights
from regard.train.checkpoint import reading
from regard.train.loop import Ending, Trainer
from regard.train.model_card import model_card
from regard.train.reports import Listener
from regard.train.run_folder import RunFolder, writing
from regard.train.tasks import prepare_run

# They follow from the data.
SIZES = ("model.src_vocab_size", "model.tgt_vocab_size", "model.vocab_size", "model.n_labels")
LIMITS: dict[Ending, str] = {
    "finished": "train.max_steps or train.max_epochs",
    "time is up": "train.max_minutes",
    "stopped early": "train.patience",
}


@dataclass(frozen=True)
class Outcome:
    ending: Ending
    step: int
    model: Path | None  # the folder of the final model; None while the run is not over


def start(run: RunConfig, folder: RunFolder, listener: Listener) -> Outcome:
    """A new run in a new folder."""
    folder.check_free()  # before any work is done
    warn_of_cosine(run.train, listener)
    initial = read_initial_model(run)
    run, prepared = prepare_run(run, default_cache(), listener.message, initial)
    trainer = Trainer(run, folder, prepared, listener)  # before the folder: what cannot be built leaves none behind
    if initial is not None:
        trainer.start_from(expand(run.train.init_from))
    folder.create(run)
    with folder.locked():
        folder.write_corpora(list(map(identity, run.data.train)))
        return finish(trainer)


def warn_of_cosine(train: TrainConfig, listener: Listener) -> None:
    endless = train.max_steps == TrainConfig.max_steps and not train.max_epochs
    if train.schedule == "cosine" and train.max_minutes and endless:
        listener.message(
            f"the cosine falls towards train.max_steps = {train.max_steps:,}, however soon the time is up: set that to "
            f"what train.max_minutes = {train.max_minutes:g} holds, or take train.cooldown, which heeds the clock"
        )


def read_initial_model(run: RunConfig) -> ModelDescription | None:
    """The model that a new run starts from, if it starts from one; what it tells apart is for the run to say."""
    if not run.train.init_from:
        return None
    initial = read_description(expand(run.train.init_from))
    if initial.tokenizer and initial.lowercase != run.data.lowercase:
        raise ConfigError(
            f"{run.train.init_from} was trained with data.lowercase = {str(initial.lowercase).lower()}: "
            "set it to the same value here"
        )
    return dataclasses.replace(initial, labels=())


def resume(run: RunConfig, folder: RunFolder, listener: Listener) -> Outcome:
    """Go on from the last whole checkpoint, with the settings of `run`; what differs is said first."""
    old = folder.read_config()
    with folder.locked():
        return go_on(old, run, folder, listener)


def go_on(old: RunConfig, run: RunConfig, folder: RunFolder, listener: Listener) -> Outcome:
    folder.clean()
    saved = folder.saved_steps()
    changes = [change for change in differences(old, run) if change[0] not in SIZES]
    initial = None if saved else read_initial_model(run)
    description = initial
    if saved:
        with reading(folder.checkpoint(saved[-1])):
            description = read_description(folder.checkpoint(saved[-1]))
        fixed = ", ".join(name for name, _, _ in changes if is_fixed(name, run, description))
        if fixed:
            raise RunError(
                f"{folder.path} cannot go on: {fixed} changed, and what was learnt depends on it. "
                f"Start a new run with --run."
            )
    for name, before, after in changes:
        listener.message(f"changed: {name}: {before!r} → {after!r}")
    run, prepared = prepare_run(run, default_cache(), listener.message, description)
    say_changed_texts(old, run, folder, listener)
    trainer = Trainer(run, folder, prepared, listener)
    if saved:
        trainer.restore(saved[-1])
    elif initial is not None:
        trainer.start_from(expand(run.train.init_from))
    folder.write_config(run)
    folder.write_corpora(list(map(identity, run.data.train)))
    if saved:
        listener.message(f"resumed at step {saved[-1]:,}, epoch {trainer.progress.place.epoch + 1}")
    else:
        folder.forget_metrics_after(0)
        listener.message("there is no checkpoint yet: starting from the beginning")
    if ending := trainer.over():
        listener.message(f"the run was over already ({ending}); raise {LIMITS[ending]} to go on")
        return Outcome(ending, trainer.progress.step, write_model_of(trainer))
    return finish(trainer)


def say_changed_texts(old: RunConfig, run: RunConfig, folder: RunFolder, listener: Listener) -> None:
    """Say which training corpora are not what they were, though the settings that name them are."""
    for known, before, corpus in zip(folder.read_corpora(), old.data.train, run.data.train, strict=False):
        if before == corpus and known != identity(corpus):
            listener.message(f"changed: the text of {corpus_name(corpus)} (its files have another place, size or time)")


def is_fixed(name: str, run: RunConfig, saved: ModelDescription) -> bool:
    """Whether a setting cannot change within a run, because the weights were trained with it."""
    if name == "data.tokenizer.files":
        files = run.data.tokenizer.files
        return not files or ready_tokenizer(files, saved.lowercase).files() != saved.tokenizer
    if name.startswith("data.tokenizer."):
        return name != "data.tokenizer.dropout"
    if name.startswith("model."):
        return "dropout" not in name
    return name in ("data.lowercase", "train.init_from", "train.optimizer")


def finish(trainer: Trainer) -> Outcome:
    """Train, then write the model, unless the run was interrupted and will go on."""
    ending = trainer.train()
    model = None if ending == "interrupted" else write_model_of(trainer)
    return Outcome(ending, trainer.progress.step, model)


def write_model_of(trainer: Trainer) -> Path:
    """The mean of the last checkpoints, or the best one where no averaging is asked for."""
    folder, train = trainer.folder, trainer.run.train
    steps, best = trainer.lasting_steps()[-train.average_checkpoints :], trainer.progress.best_step
    if train.average_checkpoints == 1 and best in folder.saved_steps():  # without a validation there is no best
        steps = [best]
    checkpoints = [folder.checkpoint(step) for step in steps]
    for checkpoint in checkpoints:
        with reading(checkpoint):
            check_sums(checkpoint)
    weights = average_weights(checkpoints)
    scores = trainer.measure_weights(weights)
    what = f"the mean of {len(steps)} checkpoints" if len(steps) > 1 else f"that of step {steps[0]:,}"
    history = trainer.final_history()
    trainer.listener.message(f"the model is {what}{said(scores)}")
    if len(steps) > 1:
        say_better_alone(trainer, scores)
    card = model_card(trainer.run, sum(w.size for w in weights.values()), steps[-1], scores, len(steps))
    with writing(folder.model), atomic_folder(folder.model, replace=True) as path:
        write_model(path, trainer.task.describe(), weights, card, history)
    return folder.model


def say_better_alone(trainer: Trainer, scores: Mapping[str, float]) -> None:
    """Say so where a single checkpoint was better than the mean, by the metric that is watched."""
    progress, metric = trainer.progress, trainer.run.train.metric
    reached = {name.lower(): value for name, value in scores.items()}.get(metric)
    if reached is None or progress.best is None or progress.best_step not in trainer.folder.saved_steps():
        return
    sign = -1 if metric == "loss" else 1  # what is kept as the best is turned so that greater is better
    if progress.best > sign * reached:
        trainer.listener.message(
            f"step {progress.best_step:,} alone had {metric} {sign * progress.best:.4g}; "
            "train.average_checkpoints = 1 takes it"
        )


def said(scores: Mapping[str, float]) -> str:
    figures = "  ".join(f"{name} {value:.4g}" for name, value in scores.items())
    return f"; on the validation set: {figures}" if figures else ""
