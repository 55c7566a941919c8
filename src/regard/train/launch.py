"""Start or resume a run: prepare the data, train, write the final model."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.config import RunConfig, TrainConfig
from regard.config.recipe import differences
from regard.data.corpus import expand
from regard.data.prepare import ready_tokenizer
from regard.errors import ConfigError, RunError
from regard.model_folder.atomic import atomic_folder, default_cache
from regard.model_folder.folder import ModelDescription, read_description, write_model
from regard.train.average import average_weights
from regard.train.checkpoint import checkpoint_errors, read_state
from regard.train.loop import Ending, Trainer
from regard.train.model_card import model_card
from regard.train.reports import Listener
from regard.train.resume import Change, check_arithmetic, identities, last_good_step, report_changed_corpora
from regard.train.run_folder import RunFolder, write_errors
from regard.train.tasks import prepare_run

# Determined by the data.
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
    model: Path | None  # folder of the final model; None if the run was interrupted


def start(run: RunConfig, folder: RunFolder, listener: Listener) -> Outcome:
    """Start a new run in a new folder."""
    folder.check_free()  # before any work is done
    warn_about_cosine(run.train, listener)
    initial = read_initial_model(run)
    run, prepared = prepare_run(run, default_cache(), listener.message, initial)
    trainer = Trainer(run, folder, prepared, listener)  # before the folder is created: an error leaves none behind
    if initial is not None:
        trainer.start_from(expand(run.train.init_from))
    with folder.created(run):
        folder.write_corpora(identities(run.data))
        return finish(trainer)


def warn_about_cosine(train: TrainConfig, listener: Listener) -> None:
    endless = train.max_steps == TrainConfig.max_steps and not train.max_epochs
    if train.schedule == "cosine" and train.max_minutes and endless:
        listener.message(
            f"warning: the cosine schedule ends at train.max_steps = {train.max_steps:,}, but training ends after "
            f"train.max_minutes = {train.max_minutes:g}: set train.max_steps to the steps in that time, or use "
            f"train.cooldown, which follows the time limit"
        )


def read_initial_model(run: RunConfig) -> ModelDescription | None:
    """The description of the initial model of a run, if any, without its labels: those are the run's."""
    if not run.train.init_from:
        return None
    initial = read_description(expand(run.train.init_from))
    if initial.tokenizer and initial.lowercase != run.data.lowercase:
        raise ConfigError(
            f"{run.train.init_from} was trained with data.lowercase = {str(initial.lowercase).lower()}: "
            "set it to the same value here"
        )
    return dataclasses.replace(initial, labels=())


def resume(run: RunConfig, folder: RunFolder, listener: Listener, allow_different_arithmetic: bool = False) -> Outcome:
    """Resume from the last good checkpoint with the settings of `run`; changed settings are reported."""
    old = folder.read_config()
    with folder.locked():
        return continue_run(old, run, folder, listener, allow_different_arithmetic)


def continue_run(
    old: RunConfig, run: RunConfig, folder: RunFolder, listener: Listener, allow_different_arithmetic: bool
) -> Outcome:
    folder.clean()
    saved = last_good_step(folder, listener)
    changes = [change for change in differences(old, run) if change[0] not in SIZES]
    initial = read_initial_model(run) if saved is None else None
    description = initial
    if saved is not None:
        description = read_fitting_description(folder, saved, run, changes)
    for name, before, after in changes:
        listener.message(f"changed: {name}: {before!r} → {after!r}")
    if saved is not None:
        check_arithmetic(folder.checkpoint(saved), run, changes, allow_different_arithmetic, listener)
    run, prepared = prepare_run(run, default_cache(), listener.message, description)
    report_changed_corpora(old, run, folder, listener)
    trainer = Trainer(run, folder, prepared, listener)
    if saved is not None:
        trainer.restore(saved)
    elif initial is not None:
        trainer.start_from(expand(run.train.init_from))
    folder.write_config(run)
    folder.write_corpora(identities(run.data))
    if saved is not None:
        listener.message(f"resumed at step {saved:,}, epoch {trainer.progress.position.epoch + 1}")
    else:
        folder.drop_metrics_after(0)
        listener.message("no checkpoint yet: starting from the beginning")
    if ending := trainer.ending():
        listener.message(f"the run is already complete ({ending}); raise {LIMITS[ending]} to continue")
        return Outcome(ending, trainer.progress.step, write_final_model(trainer))
    return finish(trainer)


def read_fitting_description(
    folder: RunFolder, step: int, run: RunConfig, changes: Sequence[Change]
) -> ModelDescription:
    """The description in a checkpoint; raises if settings changed on which its weights depend."""
    with checkpoint_errors(folder.checkpoint(step)):
        description = read_description(folder.checkpoint(step))
    fixed = ", ".join(name for name, _, _ in changes if is_fixed(name, run, description))
    if fixed:
        raise RunError(
            f"{folder.path} cannot be resumed: {fixed} changed, and the trained weights depend on it. "
            f"Start a new run with --run FOLDER."
        )
    return description


def is_fixed(name: str, run: RunConfig, saved: ModelDescription) -> bool:
    """Whether a setting cannot change within a run because the weights depend on it."""
    if name == "data.tokenizer.files":
        files = run.data.tokenizer.files
        return not files or ready_tokenizer(files, saved.lowercase).files() != saved.tokenizer
    if name.startswith("data.tokenizer."):
        return name != "data.tokenizer.dropout"
    if name.startswith("model."):
        return "dropout" not in name
    return name in ("data.lowercase", "train.init_from", "train.optimizer")


def finish(trainer: Trainer) -> Outcome:
    """Train, then write the model unless the run was interrupted."""
    ending = trainer.train()
    model = None if ending == "interrupted" else write_final_model(trainer)
    return Outcome(ending, trainer.progress.step, model)


def write_final_model(trainer: Trainer) -> Path:
    """Write the mean of the last checkpoints, or the best checkpoint if there is no averaging."""
    folder, train = trainer.folder, trainer.run.train
    steps, best = trainer.regular_steps()[-train.average_checkpoints :], trainer.progress.best_step
    if (
        train.average_checkpoints == 1 and best in folder.saved_steps()
    ):  # there is no best checkpoint without validation
        steps = [best]
    checkpoints = [folder.checkpoint(step) for step in steps]
    for checkpoint in checkpoints:
        with checkpoint_errors(checkpoint):
            read_state(checkpoint)
    weights = average_weights(checkpoints)
    scores = trainer.validate_weights(weights)
    what = f"mean of {len(steps)} checkpoints" if len(steps) > 1 else f"checkpoint of step {steps[0]:,}"
    history = trainer.final_history()
    trainer.listener.message(f"final model: {what}{scores_text(scores)}")
    if len(steps) > 1:
        report_better_checkpoint(trainer, scores)
    card = model_card(trainer.run, sum(w.size for w in weights.values()), steps[-1], scores, len(steps))
    with write_errors(folder.model), atomic_folder(folder.model, replace=True) as path:
        write_model(path, trainer.task.describe(), weights, card, history)
    return folder.model


def report_better_checkpoint(trainer: Trainer, scores: Mapping[str, float]) -> None:
    """Report if a single checkpoint was better than the mean by the selected metric."""
    progress, metric = trainer.progress, trainer.run.train.metric
    reached = {name.lower(): value for name, value in scores.items()}.get(metric)
    if reached is None or progress.best is None or progress.best_step not in trainer.folder.saved_steps():
        return
    sign = -1 if metric == "loss" else 1  # progress.best is negated for the loss: higher is better
    if progress.best > sign * reached:
        trainer.listener.message(
            f"step {progress.best_step:,} alone had {metric} {sign * progress.best:.4g}; "
            "train.average_checkpoints = 1 takes it"
        )


def scores_text(scores: Mapping[str, float]) -> str:
    figures = "  ".join(f"{name} {value:.4g}" for name, value in scores.items())
    return f"; validation: {figures}" if figures else ""
