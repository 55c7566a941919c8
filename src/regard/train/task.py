"""What is learnt: which batches come, what one costs, how well the model does on texts that it has not seen.

The trainer knows steps, checkpoints and reports, and nothing of what a batch is. One file a task.
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
        """What the loss is a mean over: predictions that are asked for."""


class Task(Protocol):
    @property
    def model(self) -> nn.Module:
        """What learns; with `compute_dtype`, as all of ours."""

    @property
    def tokens_per_epoch(self) -> float: ...

    @property
    def has_validation(self) -> bool: ...

    def batches(self, place: DataPosition) -> Iterator[tuple[Any, DataPosition]]:
        """Batches without end from `place` on, each with the place after it."""

    def loss(self, batch: Any, passes: int, r_drop: float) -> SummedLoss:
        """Summed objective and −log p of a batch; with R-Drop, of both passes through the dropout."""

    def measure(self, step: int, epoch: int) -> ValidationReport:
        """The model as it is, on the validation set."""

    def describe(self) -> ModelDescription:
        """What a folder of the model says besides its weights."""

    def name_batch(self, batch: Any) -> str:
        """What a batch is made of, for an error message."""

    def begin_history(self) -> ProbeHistory:
        """What is looked at now and then while it learns; nothing, where there is nothing to look at."""

    def look(self, history: ProbeHistory, step: int) -> Snapshot:
        """One such look."""


class WithoutProbes:
    """For tasks in which there is nothing to look at between steps."""

    def begin_history(self) -> ProbeHistory:
        return ProbeHistory(())

    def look(self, history: ProbeHistory, step: int) -> Snapshot:
        raise AssertionError("there are no probes, so nobody looks")
