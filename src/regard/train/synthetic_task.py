"""Toy tasks of long context for language models: the loss and the accuracy are of the tokens that are asked for."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from regard.config import CorpusConfig, RunConfig
from regard.data.batches import DataPosition
from regard.data.synthetic import NOT_ASKED, Examples, PreparedSynthetic, draw
from regard.errors import ConfigError
from regard.model_folder.folder import ModelDescription
from regard.models.build import build_model, require_kind
from regard.models.language_model import LanguageModel
from regard.train.loss import SummedLoss, vocabulary_loss
from regard.train.reports import ValidationReport
from regard.train.task import NoProbes
from regard.train.text_task import describe_model
from regard.train.validation import evaluation_mode

VALID_ROWS = 32


@dataclass(frozen=True)
class SyntheticBatch:
    examples: Examples

    @property
    def n_tokens(self) -> int:
        return self.examples.n_asked


class SyntheticTask(NoProbes):
    def __init__(self, run: RunConfig, prepared: PreparedSynthetic, device: torch.device) -> None:
        self.run, self.device, self.tokenizer = run, device, prepared.tokenizer
        self.train, self.valid = prepared.train, prepared.valid
        self.model: LanguageModel = require_kind(build_model(run.model), LanguageModel, run.model, "generate text")  # type: ignore[type-abstract]
        self.model.to(device)
        longest = max(corpus.length for corpus in (*self.train, *self.valid))
        if self.model.longest_text is not None and longest > self.model.longest_text:
            raise ConfigError(
                f"data has examples of length = {longest}, but the model takes {self.model.longest_text} tokens: "
                f"set model.max_positions = {longest}"
            )
        self.has_validation = bool(self.valid)
        asked = [draw(corpus, np.random.default_rng(0), 1).n_asked * corpus.size for corpus in self.train]
        self.tokens_per_epoch = float(sum(asked))

    def rows(self, corpus: CorpusConfig) -> int:
        return max(self.run.train.batch_tokens // corpus.length, 1)

    def batches(self, position: DataPosition) -> Iterator[tuple[SyntheticBatch, DataPosition]]:
        """Drawn by seed, epoch and number: those of a resumed run are the same. The corpora come in turn."""
        turns = [i for i, corpus in enumerate(self.train) for _ in range(max(corpus.size // self.rows(corpus), 1))]
        epoch, first, seed = position.epoch, position.batch, self.run.train.seed % 2**63
        while True:
            order = np.random.default_rng((seed, epoch)).permutation(turns)
            for number in range(first, len(order)):
                corpus = self.train[order[number]]
                random = np.random.default_rng((seed, corpus.seed, epoch, number))
                after = DataPosition(epoch, 0, number + 1) if number + 1 < len(order) else DataPosition(epoch + 1)
                yield SyntheticBatch(draw(corpus, random, self.rows(corpus))), after
            epoch, first = epoch + 1, 0

    def loss(self, batch: SyntheticBatch, passes: int, r_drop: float) -> SummedLoss:
        ids_BL, targets_BL = (torch.from_numpy(x).to(self.device).repeat(passes, 1) for x in batch.examples)
        asked_BL, output = targets_BL != NOT_ASKED, self.model.output
        hidden_ND = self.model.hidden(ids_BL)[asked_BL]
        smoothing = self.run.train.label_smoothing
        return vocabulary_loss(
            hidden_ND, output.weight, targets_BL[asked_BL], smoothing, r_drop, in_int8=output.in_int8
        )

    @torch.inference_mode()
    def validate(self, step: int, epoch: int) -> ValidationReport:
        started = time.perf_counter()
        total, right, count = 0.0, 0, 0
        with evaluation_mode(self.model):
            for corpus in self.valid:
                random = np.random.default_rng((corpus.seed, 1))
                for start in range(0, corpus.size, VALID_ROWS):
                    examples = draw(corpus, random, min(VALID_ROWS, corpus.size - start))
                    ids_BL, targets_BL = (torch.from_numpy(x).to(self.device) for x in examples)
                    asked_BL = targets_BL != NOT_ASKED
                    logits_NV = self.model.project(self.model.hidden(ids_BL)[asked_BL]).float()
                    targets_N = targets_BL[asked_BL]
                    total += float(torch.nn.functional.cross_entropy(logits_NV, targets_N, reduction="sum"))
                    right, count = right + int((logits_NV.argmax(-1) == targets_N).sum()), count + len(targets_N)
        seconds = time.perf_counter() - started
        return ValidationReport(step, epoch, total / count, None, None, seconds, (), accuracy=right / count)

    def describe(self) -> ModelDescription:
        return describe_model(self.run, self.tokenizer)

    def describe_batch(self, batch: SyntheticBatch) -> str:
        return f"{len(batch.examples.ids_BL)} examples of {batch.examples.ids_BL.shape[1]} tokens"
