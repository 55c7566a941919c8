"""Causal language modelling: predict each token of a window of running text from those before it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regard.config import RunConfig
from regard.data.batches import DataPosition
from regard.data.texts import Ids, PreparedTexts, Windows, cut_evenly
from regard.decode.generate import ENDED, SamplingOptions, generate
from regard.decode.model_texts import ModelTexts
from regard.model_folder.folder import ModelDescription
from regard.models.build import build_model, require_kind
from regard.models.language_model import LanguageModel
from regard.train.loss import SummedLoss, vocabulary_loss
from regard.train.reports import Sample, ValidationReport
from regard.train.task import NoProbes
from regard.train.text_task import describe_model, window_length
from regard.train.validation import evaluation_mode

SAMPLE_TOKENS = 120
SAMPLING = SamplingOptions(temperature=0.8, top_k=40)


@dataclass(frozen=True)
class WindowBatch:
    """ids_BL and the targets, shifted by one; the first id is BOS if the tokenizer has one."""

    ids: Ids
    targets: Ids

    @property
    def n_tokens(self) -> int:
        return self.targets.size


class LanguageModelingTask(NoProbes):
    def __init__(self, run: RunConfig, prepared: PreparedTexts, device: torch.device) -> None:
        self.run, self.device, self.tokenizer = run, device, prepared.tokenizer
        model = build_model(run.model)
        self.model: LanguageModel = require_kind(model, LanguageModel, run.model, "generate text").to(device)  # type: ignore[type-abstract]
        self.lead = self.tokenizer.prompt("")  # the same prefix as in generation
        length = window_length(run, self.model.longest_text) + 1 - len(self.lead)
        rows = run.train.batch_tokens // length
        self.windows = Windows(prepared.train, prepared.weights, length, rows, run.train.seed)
        self.tokens_per_epoch = self.windows.tokens_per_epoch
        windows = cut_evenly(prepared.valid, length, run.train.valid_windows)
        self.valid = [self.batch(window[None]) for window in windows]
        self.valid = [batch for batch in self.valid if batch.n_tokens]
        self.has_validation = bool(self.valid)

    def batch(self, window_BL: Ids) -> WindowBatch:
        lead = np.broadcast_to(np.array(self.lead, np.int64), (len(window_BL), len(self.lead)))
        whole = np.concatenate([lead, window_BL], axis=1)
        return WindowBatch(whole[:, :-1], whole[:, 1:])

    def batches(self, position: DataPosition) -> Iterator[tuple[WindowBatch, DataPosition]]:
        return ((self.batch(window_BL), after) for window_BL, after in self.windows.iterate(position))

    def loss(self, batch: WindowBatch, passes: int, r_drop: float) -> SummedLoss:
        return self.summed(batch, passes, self.run.train.label_smoothing, r_drop)

    def summed(self, batch: WindowBatch, passes: int, smoothing: float, r_drop: float) -> SummedLoss:
        ids, targets = (torch.from_numpy(x).to(self.device).repeat(passes, 1) for x in (batch.ids, batch.targets))
        hidden_ND: Tensor = self.model.hidden(ids).flatten(0, 1)
        output = self.model.output
        return vocabulary_loss(hidden_ND, output.weight, targets.flatten(), smoothing, r_drop, in_int8=output.in_int8)

    @torch.inference_mode()
    def validate(self, step: int, epoch: int) -> ValidationReport:
        started = time.perf_counter()
        with evaluation_mode(self.model):
            total = sum(float(self.summed(batch, 1, 0.0, 0.0).nll) for batch in self.valid)
            count = sum(batch.n_tokens for batch in self.valid)
            samples = tuple(Sample("", "", self.sample(seed)) for seed in range(self.run.train.valid_samples))
        return ValidationReport(step, epoch, total / count, None, None, time.perf_counter() - started, samples)

    def sample(self, seed: int) -> str:
        """Sample a text from the model."""
        prompt = self.lead or [self.tokenizer.end]
        model = ModelTexts(self.model)
        steps = generate(model, self.tokenizer, prompt, SAMPLING, max_tokens=SAMPLE_TOKENS, seeds=[seed])
        tokens = [int(tokens_R[0]) for tokens_R, _ in steps]
        return self.tokenizer.decode([token for token in tokens if token not in (ENDED, self.tokenizer.end)])

    def describe(self) -> ModelDescription:
        return describe_model(self.run, self.tokenizer)

    def describe_batch(self, batch: WindowBatch) -> str:
        return f"{len(batch.ids)} windows, the first {self.tokenizer.decode(batch.ids[0].tolist())[:60]!r} …"
