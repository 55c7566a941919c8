"""The task protocol: batches, loss and validation of a kind of training.

The trainer handles steps, checkpoints and reports, and knows nothing about the contents of a batch. One file per task.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from torch import nn

from regard.data.batches import DataPosition
from regard.model_folder.folder import ModelDescription
from regard.train.loss import SummedLoss
from regard.train.probes import ProbeHistory, Snapshot
from regard.train.reports import ValidationReport


class TaskBatch(Protocol):
    @property
    def n_tokens(self) -> int:
        """Number of predictions, over which the loss is averaged."""


class Task(Protocol):
    @property
    def model(self) -> nn.Module:
        """The model to train; it has an attribute `compute_dtype`."""

    @property
    def tokens_per_epoch(self) -> float: ...

    @property
    def has_validation(self) -> bool: ...

    def batches(self, position: DataPosition) -> Iterator[tuple[Any, DataPosition]]:
        """Endless batches from `position` on, each with the position after it."""

    def loss(self, batch: Any, passes: int, r_drop: float) -> SummedLoss:
        """Summed objective and −log p of a batch; with R-Drop, of both passes."""

    def validate(self, step: int, epoch: int) -> ValidationReport:
        """Validate the model."""

    def describe(self) -> ModelDescription:
        """The contents of a model folder except the weights."""

    def describe_batch(self, batch: Any) -> str:
        """Describe a batch in an error message."""

    def start_history(self) -> ProbeHistory:
        """The attention history to record; without probes if the task has none."""

    def take_snapshot(self, history: ProbeHistory, step: int) -> Snapshot:
        """Record the attention of the probes."""


class NoProbes:
    """For tasks without an attention history."""

    def start_history(self) -> ProbeHistory:
        return ProbeHistory(())

    def take_snapshot(self, history: ProbeHistory, step: int) -> Snapshot:
        raise AssertionError("this task has no probes")
