"""T5's pre-training (Raffel et al. 2020, section 3.1.4): predict spans that were removed from running text."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

import torch

from regard.config import RunConfig
from regard.data.batches import Batch, DataPosition, collate
from regard.data.spans import MEAN_LENGTH, RATE, corrupt_spans
from regard.data.texts import Ids, PreparedTexts, Windows, cut_evenly
from regard.decode.search import search
from regard.errors import ConfigError
from regard.model_folder.folder import ModelDescription
from regard.models.build import translation_model
from regard.tokenizers.protocol import Tokenizer
from regard.tokenizers.sentencepiece import SentencePieceTokenizer
from regard.train.loss import SummedLoss
from regard.train.reports import Sample, ValidationReport
from regard.train.task import NoProbes
from regard.train.text_task import describe_model, window_length
from regard.train.translation_task import translation_loss
from regard.train.validation import GREEDY, evaluation_mode, mean_nll


class SpanCorruptionTask(NoProbes):
    def __init__(self, run: RunConfig, prepared: PreparedTexts, device: torch.device) -> None:
        self.run, self.device, self.tokenizer = run, device, prepared.tokenizer
        self.model = translation_model(run.model).to(device)
        self.sentinels = sentinels_of(self.tokenizer)
        length = window_length(run, self.model.longest_target)
        self.windows = Windows(
            prepared.train, prepared.weights, length, run.train.batch_tokens // length, run.train.seed
        )
        self.tokens_per_epoch = self.windows.tokens_per_epoch * RATE * (1 + 1 / MEAN_LENGTH)
        windows = cut_evenly(prepared.valid, length, run.train.valid_windows)
        self.valid = [self.batch(window[None], random.Random(i)) for i, window in enumerate(windows) if len(window) > 1]
        self.has_validation = bool(self.valid)

    def batch(self, window_BL: Ids, rng: random.Random) -> Batch:
        pairs = [corrupt_spans(self.without_ends(window_L), self.sentinels, rng) for window_L in window_BL]
        return collate([pair.source for pair in pairs], [pair.target for pair in pairs])

    def without_ends(self, window_L: Ids) -> list[int]:
        """Without end-of-text tokens: a target ends at the first one."""
        ids = [id for id in window_L.tolist() if id != self.tokenizer.end]
        return ids if len(ids) > 1 else window_L.tolist()

    def batches(self, position: DataPosition) -> Iterator[tuple[Batch, DataPosition]]:
        for window_BL, after in self.windows.iterate(position):
            yield (
                self.batch(window_BL, random.Random(f"{self.run.train.seed} {position.epoch} {position.batch}")),
                after,
            )
            position = after

    def loss(self, batch: Batch, passes: int, r_drop: float) -> SummedLoss:
        smoothing = self.run.train.label_smoothing
        return translation_loss(self.model, batch, self.device, passes, smoothing, r_drop)

    @torch.inference_mode()
    def validate(self, step: int, epoch: int) -> ValidationReport:
        started = time.perf_counter()
        with evaluation_mode(self.model):
            nll = mean_nll(self.model, self.valid, self.device)
            samples = tuple(map(self.sample, self.valid[: self.run.train.valid_samples]))
        return ValidationReport(step, epoch, nll, None, None, time.perf_counter() - started, samples)

    def sample(self, batch: Batch) -> Sample:
        """A corrupted text, its target, and the model's prediction."""
        source, target = batch.src[0].tolist(), batch.tgt_out[0].tolist()
        [[best, *_]] = search(self.model, [source[:-1]], GREEDY, self.device)
        return Sample(*(self.tokenizer.decode(ids) for ids in (source[:-1], target[:-1], best.ids)))

    def describe(self) -> ModelDescription:
        return describe_model(self.run, self.tokenizer)

    def describe_batch(self, batch: Batch) -> str:
        return f"{len(batch.src)} windows, the first {self.tokenizer.decode(batch.src[0].tolist())[:60]!r} …"


def sentinels_of(tokenizer: Tokenizer) -> list[int]:
    found = tokenizer.vocabulary.sentinels if isinstance(tokenizer, SentencePieceTokenizer) else []
    if len(found) < 2:
        raise ConfigError("this vocabulary has no <extra_id_0>, <extra_id_1> … sentinel tokens; let Regard train one")
    return found
