"""The training loop.

A run can be interrupted at any time. A checkpoint has everything that the next step depends on (weights, optimiser,
random state, position in the data), so a resumed run ends bit for bit where an uninterrupted one ends.
"""

from __future__ import annotations

import dataclasses
import math
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import nn

from regard.config import RunConfig
from regard.core.auxiliary import auxiliary_loss, constrain
from regard.core.int8 import reason_against, use_int8
from regard.core.moe import LoadReport, rebalance
from regard.core.precision import choose_dtype, cpu_has_vnni, takes_int8
from regard.data.batches import DataPosition
from regard.errors import ConfigError, TrainingDiverged
from regard.kernels.memory import keep_freed_memory
from regard.model_folder.atomic import atomic_write
from regard.model_folder.folder import PROBES, read_weights
from regard.train.arithmetic import arithmetic_of, choose_device, why_no_kernels
from regard.train.attention_reports import report_buckets, report_spans
from regard.train.checkpoint import Checkpoint, Progress, Tally, load_checkpoint, save_checkpoint
from regard.train.ema import MovingAverage
from regard.train.model_card import model_card
from regard.train.optimizer import (
    build_optimizer,
    cooldown_factor,
    learning_rate,
    optimizer_tensors,
    paper_learning_rate,
    restore_optimizer,
)
from regard.train.probes import encode, read_history
from regard.train.reports import Balance, Listener, StepReport, ValidationReport
from regard.train.run_folder import RunFolder, write_errors
from regard.train.task import TaskBatch
from regard.train.tasks import AnyPrepared, build_task
from regard.train.validation import set_precision

INTERRUPTS = ("SIGINT", "SIGTERM", "SIGHUP")  # Ctrl-C, kill, closed terminal

Ending = Literal["finished", "stopped early", "time is up", "interrupted"]


class Trainer:
    """One run: its model, its optimiser, its position in the data."""

    def __init__(self, run: RunConfig, folder: RunFolder, prepared: AnyPrepared, listener: Listener) -> None:
        train = run.train
        keep_freed_memory()
        torch.manual_seed(train.seed)
        if train.threads:
            torch.set_num_threads(train.threads)
        self.device = choose_device()
        self.run, self.folder, self.listener = run, folder, listener
        self.task = build_task(run, prepared, self.device, listener.message)
        self.model = self.task.model
        set_precision(self.model, choose_dtype(train.precision, self.device))
        if takes_int8(train.precision, self.device):
            self.enable_int8()
        self.arithmetic = arithmetic_of(train)
        if self.device.type == "cpu" and (reason := why_no_kernels()):
            listener.message(f"the C++ kernels are not used, which is slower and rounds differently: {reason}")
        self.names: dict[nn.Parameter, str] = {p: name for name, p in self.model.named_parameters()}
        betas = (train.beta1, train.beta2)
        learnt = [p for p in self.names if p.requires_grad]
        self.optimizer = build_optimizer(train.optimizer, learnt, betas, train.eps, train.weight_decay)
        self.average = MovingAverage(self.model, train.ema) if train.ema else None
        self.peak_lr = train.lr or paper_learning_rate(run.model.d_model, train.warmup_steps)
        self.history = self.task.start_history()
        self.load: LoadReport | None = None  # of experts, since the last report
        self.progress = Progress(metric=train.metric)
        self.interrupted = False

    def enable_int8(self) -> None:
        """Enable int8 matrix products, and report it, since with precision 'auto' the CPU decides."""
        if reason := reason_against(self.device):
            raise ConfigError(f"train.precision = 'int8', but {reason}. Use --set train.precision=auto")
        use_int8(self.model)
        how = "fastest on this CPU" if cpu_has_vnni() else "slow on this CPU, which has no VNNI"
        self.listener.message(f"int8 matrix products, {how} (train.precision = {self.run.train.precision!r})")

    def start_from(self, folder: Path) -> None:
        """Initialise from another model: copy every weight that has the same name and shape."""
        given = read_weights(folder)
        fitting = {p: name for p, name in self.names.items() if name in given and given[name].shape == p.shape}
        with torch.no_grad():
            for parameter, name in fitting.items():
                parameter.copy_(torch.from_numpy(given[name]))
        if self.average is not None:
            self.average = MovingAverage(self.model, self.run.train.ema)
        if (folder / PROBES).is_file():
            self.history = self.history.after(read_history(folder / PROBES))
        self.listener.message(
            f"initialised {len(fitting)} of {len(self.names)} weights from {folder}; the others are random"
        )

    def restore(self, step: int) -> None:
        """Restore a checkpoint of this run."""
        checkpoint = load_checkpoint(self.folder.checkpoint(step))
        with torch.no_grad():
            for parameter, name in self.names.items():
                parameter.copy_(checkpoint.weights[name])
        restore_optimizer(self.optimizer, self.names, checkpoint.optimizer)
        if self.average is not None:
            self.average.restore(checkpoint.averages or checkpoint.weights)
        torch.set_rng_state(checkpoint.random_state)
        self.progress, metric = checkpoint.progress, self.run.train.metric
        if self.progress.metric not in ("", metric):  # the best value of another metric is not comparable
            self.progress.best, self.progress.best_step, self.progress.stale = None, 0, 0
        self.progress.metric = metric
        self.folder.drop_metrics_after(step)
        if self.history.probes and self.folder.probes.is_file():
            saved = read_history(self.folder.probes).until(step)
            self.history = saved if saved.probes == self.history.probes else self.history

    def train(self) -> Ending:
        """Train until a limit is reached or the run is interrupted; the last state is saved."""
        before = time.perf_counter()
        with self.watch_interrupts():
            self.probe()
            for batches, position in self.steps():
                epoch, started = self.progress.position.epoch, time.perf_counter()
                result = self.step(batches)
                seconds = time.perf_counter() - started
                self.progress.tally.add(result.objective, result.nll, result.tokens, seconds)
                self.progress.position = position
                if position.epoch > epoch:
                    self.progress.ended_tokens = self.progress.tokens
                self.progress.seconds += time.perf_counter() - before
                before = time.perf_counter()
                if self.progress.step % self.run.train.log_every == 0:
                    self.report(result, epoch)
                if ending := self.after_step(epoch):
                    return ending
        return "finished"

    def after_step(self, epoch: int) -> Ending | None:
        """Validate and save if due; returns how the run ended, if it did."""
        train, step, ended_epoch = self.run.train, self.progress.step, self.progress.position.epoch > epoch
        saving = train.checkpoint_every > 0 and step % train.checkpoint_every == 0
        if (step % train.validate_every == 0 if train.validate_every else ended_epoch) or self.ending():
            self.validate(epoch)
            saving = True
        ending = self.ending() or ("interrupted" if self.interrupted else None)
        if ending == "interrupted" and not saving:
            self.progress.interruptions.append(step)
            saving = True
        self.probe()
        if saving:
            self.save()
        return ending

    def probe(self) -> None:
        """Take a snapshot of the probes if one is due."""
        if not self.history.is_due(self.progress.step):
            return
        with self.averaged_weights():
            snapshot = self.task.take_snapshot(self.history, self.progress.step)
        self.history = self.history.with_snapshot(snapshot)

    def final_history(self) -> bytes | None:
        """The snapshots to store with the model; the last is the final model, as `validate_weights` left it."""
        if not self.history.probes:
            return None
        snapshot = self.task.take_snapshot(self.history, self.progress.step)
        return encode(self.history.with_snapshot(snapshot).thinned())

    def steps(self) -> Iterator[tuple[list[TaskBatch], DataPosition]]:
        """The batches of each step, and the position in the data after it."""
        given = self.task.batches(self.progress.position)
        while group := list(islice(given, self.run.train.gradient_accumulation_steps)):
            yield [batch for batch, _ in group], group[-1][1]

    def step(self, batches: list[TaskBatch]) -> StepResult:
        """One optimiser step on the mean loss over all predictions of `batches`."""
        train = self.run.train
        r_drop = train.r_drop if self.progress.step >= train.r_drop_after else 0.0
        passes = 2 if r_drop else 1
        tokens = sum(batch.n_tokens for batch in batches)
        objective, nll = 0.0, 0.0
        for batch in batches:
            loss = self.task.loss(batch, passes, r_drop)
            mean = loss.objective / (tokens * passes)
            added = auxiliary_loss(self.model)
            (mean if added is None else mean + added / len(batches)).backward()  # type: ignore[no-untyped-call]
            objective += loss.objective.item() / (tokens * passes)
            nll += loss.nll.item() / (tokens * passes)
            if not math.isfinite(objective):
                raise self.diverged_on(batch, objective, math.nan)
        gradients = [p.grad for p in self.names if p.grad is not None]
        grad_norm = nn.utils.get_total_norm(gradients)
        if not math.isfinite(grad_norm):
            raise self.diverged_on(batches[-1], objective, float(grad_norm))
        if train.clip_norm:
            nn.utils.clip_grads_with_norm_(self.model.parameters(), train.clip_norm, grad_norm)
        left = 1 - self.done()
        self.progress.step += 1
        self.progress.tokens += tokens
        lr = learning_rate(self.progress.step, train.schedule, self.peak_lr, train.warmup_steps, self.last_step())
        lr *= cooldown_factor(left, train.cooldown)
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        constrain(self.model)
        if (load := rebalance(self.model)) is not None:
            self.load = load if self.load is None else self.load + load
        if self.average is not None:
            self.average.update(self.model, self.progress.step)
        return StepResult(objective, nll, tokens, lr, float(grad_norm))

    def last_step(self) -> int:
        """The last step of the run, for the cosine schedule; an estimate if epochs are limited."""
        train, progress = self.run.train, self.progress
        if not train.max_epochs:
            return train.max_steps
        steps_per_epoch = self.tokens_per_epoch() / (progress.tokens / progress.step)
        return min(train.max_steps, math.ceil(train.max_epochs * steps_per_epoch))

    def tokens_per_epoch(self) -> float:
        """The mean of the finished epochs; before that, the task's estimate."""
        progress = self.progress
        return progress.ended_tokens / progress.position.epoch if progress.ended_tokens else self.task.tokens_per_epoch

    def done(self) -> float:
        """The completed fraction of the run, by the nearest limit: steps, epochs or minutes."""
        train, progress = self.run.train, self.progress
        shares = [progress.step / train.max_steps]
        if train.max_epochs:
            shares.append(progress.tokens / (self.tokens_per_epoch() * train.max_epochs))
        if train.max_minutes:  # not reproducible, as is the end of such a run
            shares.append(progress.seconds / (train.max_minutes * 60))
        return min(1.0, max(shares))

    def ending(self) -> Ending | None:
        """The limit that the run has reached, if any."""
        train, progress = self.run.train, self.progress
        if progress.step >= train.max_steps or 0 < train.max_epochs <= progress.position.epoch:
            return "finished"
        if 0 < train.max_minutes * 60 <= progress.seconds:
            return "time is up"
        return "stopped early" if 0 < train.patience <= progress.stale else None

    def compute_validation(self, epoch: int) -> ValidationReport:
        """Validate the model with its current weights."""
        return self.task.validate(self.progress.step, epoch + 1)

    def validate_weights(self, weights: Mapping[str, np.ndarray]) -> dict[str, float]:
        """Load other weights and validate them, if there is a validation set; called at the end of training."""
        with torch.no_grad():
            for parameter, name in self.names.items():
                parameter.copy_(torch.from_numpy(weights[name]))
        return self.compute_validation(self.progress.position.epoch).scores() if self.task.has_validation else {}

    def validate(self, epoch: int) -> None:
        if not self.task.has_validation:
            return
        with self.averaged_weights():
            report = self.compute_validation(epoch)
        if not math.isfinite(report.nll):
            raise self.diverged(f"step {self.progress.step}: the validation loss is {report.nll}")
        goodness = report.goodness(self.run.train.metric)
        best = self.progress.best is None or goodness > self.progress.best
        if best:
            self.progress.best, self.progress.best_step, self.progress.stale = goodness, self.progress.step, 0
        else:
            self.progress.stale += 1
        report = dataclasses.replace(report, best=best)
        self.progress.scores = report.scores()
        self.folder.append_metrics(report.row())
        self.listener.validation(report)

    @contextmanager
    def averaged_weights(self) -> Iterator[None]:
        """Use the moving average of the weights within the block, if there is one."""
        if self.average is None:
            yield
        else:
            with self.average.applied(self.model):
                yield

    def report(self, last: StepResult, epoch: int) -> None:
        """Report on the steps since the last report."""
        progress = self.progress
        tally, progress.tally = progress.tally, Tally()
        report = StepReport(
            progress.step,
            epoch + 1,
            tally.objective / tally.tokens,
            tally.nll / tally.tokens,
            last.lr,
            last.grad_norm,
            tally.tokens / tally.seconds,
            progress.seconds,
            self.seconds_left(),
            None if self.load is None else Balance(self.load.entropy, self.load.busiest, self.load.idle),
            report_spans(self.model),
            report_buckets(self.model),
        )
        self.load = None
        self.folder.append_metrics(report.row())
        self.listener.step(report)

    def seconds_left(self) -> float:
        """Estimated time to the nearest limit."""
        return self.progress.seconds * (1 / self.done() - 1)

    def save(self) -> None:
        """Write a checkpoint, then delete old ones."""
        step = self.progress.step
        if not all(bool(torch.isfinite(p).all()) for p in self.names):
            raise self.diverged(f"step {step}: some weights are NaN or infinite")
        weights = {name: p.detach().cpu() for p, name in self.names.items()}
        averages = None if self.average is None else {name: a.cpu() for name, a in self.average.averages.items()}
        optimizer = {name: t.cpu() for name, t in optimizer_tensors(self.optimizer, self.names).items()}
        if self.history.snapshots:  # first: a surplus snapshot can be dropped, a missing one cannot be made
            with write_errors(self.folder.probes):
                atomic_write(self.folder.probes, encode(self.history))
        state = Checkpoint(self.progress, weights, averages, optimizer, torch.get_rng_state(), self.arithmetic)
        card = model_card(self.run, sum(p.numel() for p in self.names), step, self.progress.scores)
        save_checkpoint(self.folder.checkpoint(step), state, self.task.describe(), card)
        self.folder.keep_only({*self.regular_steps()[-self.run.train.keep_checkpoints :], self.progress.best_step})

    def regular_steps(self) -> list[int]:
        """The saved steps without those of past interruptions, which an uninterrupted run does not have."""
        past = {*self.progress.interruptions} - {self.progress.step}
        return [step for step in self.folder.saved_steps() if step not in past]

    def diverged_on(self, batch: TaskBatch, objective: float, grad_norm: float) -> TrainingDiverged:
        position = self.progress.position
        return self.diverged(
            f"step {self.progress.step + 1}: the loss is {objective}, the gradient norm {grad_norm}. "
            f"The batch is number {position.batch} of pool {position.pool} in epoch {position.epoch + 1}, with "
            f"{self.task.describe_batch(batch)}"
        )

    def diverged(self, what: str) -> TrainingDiverged:
        saved = self.folder.saved_steps()
        last = f"the last good checkpoint is {self.folder.checkpoint(saved[-1])}" if saved else "no checkpoint yet"
        return TrainingDiverged(
            f"{what}; {last}. A smaller train.lr, a longer train.warmup_steps or train.clip_norm = 1 usually helps: "
            f"--resume --set train.lr={self.peak_lr / 2:.2g}"
        )

    @contextmanager
    def watch_interrupts(self) -> Iterator[None]:
        """On a signal of `INTERRUPTS`, finish the step and save; on a second one, stop at once."""

        def interrupt(number: int, frame: object) -> None:
            if self.interrupted:
                raise KeyboardInterrupt
            self.interrupted = True
            self.listener.message("stopping after this step; press Ctrl-C again to stop at once")

        handled = [signal.Signals[name] for name in INTERRUPTS if name in signal.Signals.__members__]
        active = [
            number for number in handled if signal.getsignal(number) is not signal.SIG_IGN
        ]  # nohup ignores SIGHUP
        try:
            before = {number: signal.signal(number, interrupt) for number in active}
        except ValueError:  # not the main thread: the caller sets `interrupted`
            before = {}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


@dataclasses.dataclass(frozen=True)
class StepResult:
    objective: float
    nll: float
    tokens: int
    lr: float
    grad_norm: float
