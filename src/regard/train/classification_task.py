"""Classification of texts with BERT and of images with ViT."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.config import BertConfig, RunConfig, ViTConfig
from regard.data.batches import DataPosition
from regard.data.examples import Numbers, PreparedImages, PreparedLabels, Shuffled
from regard.data.images import ImageSet, augment, scaled
from regard.model_folder.folder import ModelDescription
from regard.models.bert import Bert
from regard.models.vit import ViT
from regard.tokenizers.special_ids import PAD
from regard.train.loss import SummedLoss
from regard.train.reports import ValidationReport
from regard.train.task import NoProbes
from regard.train.text_task import describe_model, window_length
from regard.train.validation import evaluation_mode

VALID_ROWS = 64


@dataclass(frozen=True)
class ClassificationBatch:
    inputs: Any  # ids_BL or image_BCYX
    labels: Numbers

    @property
    def n_tokens(self) -> int:
        return len(self.labels)


class ClassificationTask(NoProbes, ABC):
    """The common part; subclasses make batches of examples and compute logits."""

    model: nn.Module
    stream: Shuffled
    n_valid: int

    def __init__(self, run: RunConfig, device: torch.device) -> None:
        self.run, self.device = run, device

    @abstractmethod
    def batch(self, numbers: Numbers, valid: bool) -> ClassificationBatch:
        """A batch of the examples with these indices."""

    @abstractmethod
    def logits(self, batch: ClassificationBatch, passes: int) -> Tensor:
        """logits_BC; rows are repeated `passes` times."""

    @property
    def tokens_per_epoch(self) -> float:
        return self.stream.examples_per_epoch

    @property
    def has_validation(self) -> bool:
        return self.n_valid > 0

    def batches(self, position: DataPosition) -> Iterator[tuple[ClassificationBatch, DataPosition]]:
        return ((self.batch(numbers, valid=False), after) for numbers, after in self.stream.iterate(position))

    def loss(self, batch: ClassificationBatch, passes: int, r_drop: float) -> SummedLoss:
        logits_BC = self.logits(batch, passes).float()
        labels_B = torch.from_numpy(batch.labels).to(self.device).repeat(passes)
        log_probs_BC = F.log_softmax(logits_BC, dim=-1)
        nll = F.nll_loss(log_probs_BC, labels_B, reduction="sum")
        smoothing = self.run.train.label_smoothing
        objective = (1 - smoothing) * nll - smoothing * log_probs_BC.mean(dim=-1).sum()
        if r_drop:
            p, q = log_probs_BC.chunk(2)
            both = F.kl_div(p, q, reduction="sum", log_target=True) + F.kl_div(q, p, reduction="sum", log_target=True)
            objective = objective + r_drop / 2 * both
        return SummedLoss(objective, nll.detach())

    @torch.inference_mode()
    def validate(self, step: int, epoch: int) -> ValidationReport:
        started = time.perf_counter()
        total, right = 0.0, 0
        with evaluation_mode(self.model):
            for first in range(0, self.n_valid, VALID_ROWS):
                batch = self.batch(np.arange(first, min(first + VALID_ROWS, self.n_valid)), valid=True)
                logits_BC = self.logits(batch, 1).float()
                labels_B = torch.from_numpy(batch.labels).to(self.device)
                total += float(F.cross_entropy(logits_BC, labels_B, reduction="sum"))
                right += int((logits_BC.argmax(dim=-1) == labels_B).sum())
        seconds = time.perf_counter() - started
        return ValidationReport(
            step, epoch, total / self.n_valid, None, None, seconds, (), accuracy=right / self.n_valid
        )

    def describe_batch(self, batch: ClassificationBatch) -> str:
        return f"{len(batch.labels)} examples"


class TextClassificationTask(ClassificationTask):
    def __init__(self, run: RunConfig, config: BertConfig, prepared: PreparedLabels, device: torch.device) -> None:
        super().__init__(run, device)
        self.tokenizer, self.labels = prepared.tokenizer, prepared.labels
        self.model: Bert = Bert(config).to(device)
        self.longest = window_length(run, self.model.longest_text) - 2
        self.train, self.valid = prepared.train, prepared.valid
        self.n_valid = len(self.valid)
        lengths = [min(len(ids), self.longest) + 2 for ids, _ in self.train]
        rows = round(run.train.batch_tokens / np.mean(lengths))
        self.stream = Shuffled(prepared.weights, rows, run.train.seed, lengths)

    def batch(self, numbers: Numbers, valid: bool) -> ClassificationBatch:
        """[CLS] text [SEP], padded; texts that are too long are truncated."""
        chosen = [(self.valid if valid else self.train)[i] for i in numbers]
        rows = [[self.tokenizer.begin, *ids[: self.longest], self.tokenizer.end] for ids, _ in chosen]
        ids_BL = np.full((len(rows), max(map(len, rows))), PAD, np.int64)
        for row, ids in enumerate(rows):
            ids_BL[row, : len(ids)] = ids
        return ClassificationBatch(ids_BL, np.array([label for _, label in chosen], np.int64))

    def logits(self, batch: ClassificationBatch, passes: int) -> Tensor:
        return self.model.class_logits(self.model(torch.from_numpy(batch.inputs).to(self.device).repeat(passes, 1)))

    def describe(self) -> ModelDescription:
        return describe_model(self.run, self.tokenizer, self.labels)


class ImageClassificationTask(ClassificationTask):
    def __init__(self, run: RunConfig, config: ViTConfig, prepared: PreparedImages, device: torch.device) -> None:
        super().__init__(run, device)
        self.config, self.labels = config, prepared.labels
        self.model: ViT = ViT(config).to(device)
        self.train, self.valid = prepared.train, prepared.valid
        self.n_valid = 0 if self.valid is None else len(self.valid)
        patches = self.model.patches_across**2 + 1
        self.stream = Shuffled(prepared.weights, run.train.batch_tokens // patches, run.train.seed)

    def batch(self, numbers: Numbers, valid: bool) -> ClassificationBatch:
        images = self.valid if valid and self.valid is not None else self.train
        return self.batch_of(images.select(numbers))

    def batch_of(self, images: ImageSet) -> ClassificationBatch:
        return ClassificationBatch(scaled(images.pixels_NCYX, self.config.mean, self.config.std), images.labels_N)

    def batches(self, position: DataPosition) -> Iterator[tuple[ClassificationBatch, DataPosition]]:
        """Augmentation depends on the seed and the position only, so that a run can be resumed."""
        data, seed = self.run.data, self.run.train.seed
        for numbers, after in self.stream.iterate(position):
            images = self.train.select(numbers)
            random = np.random.default_rng((seed % 2**63, after.epoch, after.batch))
            pixels_NCYX = augment(images.pixels_NCYX, data.horizontal_flip, data.random_shift, random)
            yield self.batch_of(ImageSet(pixels_NCYX, images.labels_N)), after

    def logits(self, batch: ClassificationBatch, passes: int) -> Tensor:
        image_BCYX = torch.from_numpy(batch.inputs).to(self.device).repeat(passes, 1, 1, 1)
        return self.model(image_BCYX)  # type: ignore[no-any-return]

    def describe(self) -> ModelDescription:
        run = self.run
        return ModelDescription(run.model, run.decode, "", "", False, {}, labels=self.labels)
