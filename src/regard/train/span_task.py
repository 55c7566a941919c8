"""T5's pre-training (Raffel et al. 2020, section 3.1.4): spans of running text are taken out, and to be said again."""

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
from regard.train.one_text import describe_model, window_length
from regard.train.reports import Sample, ValidationReport
from regard.train.task import WithoutProbes
from regard.train.translation_task import translation_loss
from regard.train.validation import GREEDY, exactly, mean_nll


class SpanTask(WithoutProbes):
    def __init__(self, run: RunConfig, prepared: PreparedTexts, device: torch.device) -> None:
        self.run, self.device, self.lexicon = run, device, prepared.lexicon
        self.model = translation_model(run.model).to(device)
        self.sentinels = sentinels_of(self.lexicon)
        length = window_length(run, self.model.longest_target)
        self.windows = Windows(
            prepared.train, prepared.weights, length, run.train.batch_tokens // length, run.train.seed
        )
        self.tokens_per_epoch = self.windows.tokens_per_epoch * RATE * (1 + 1 / MEAN_LENGTH)
        windows = cut_evenly(prepared.valid, length, run.train.valid_windows)
        self.valid = [self.batch(window[None], random.Random(i)) for i, window in enumerate(windows) if len(window) > 1]
        self.has_validation = bool(self.valid)

    def batch(self, window_BL: Ids, draw: random.Random) -> Batch:
        pairs = [corrupt_spans(self.without_ends(window_L), self.sentinels, draw) for window_L in window_BL]
        return collate([pair.source for pair in pairs], [pair.target for pair in pairs])

    def without_ends(self, window_L: Ids) -> list[int]:
        """A target ends at the first end of a text, so none may be taken out."""
        ids = [id for id in window_L.tolist() if id != self.lexicon.end]
        return ids if len(ids) > 1 else window_L.tolist()

    def batches(self, place: DataPosition) -> Iterator[tuple[Batch, DataPosition]]:
        for window_BL, after in self.windows.iterate(place):
            yield self.batch(window_BL, random.Random(f"{self.run.train.seed} {place.epoch} {place.batch}")), after
            place = after

    def loss(self, batch: Batch, passes: int, r_drop: float) -> SummedLoss:
        smoothing = self.run.train.label_smoothing
        return translation_loss(self.model, batch, self.device, passes, smoothing, r_drop)

    @torch.inference_mode()
    def measure(self, step: int, epoch: int) -> ValidationReport:
        started = time.perf_counter()
        with exactly(self.model):
            nll = mean_nll(self.model, self.valid, self.device)
            samples = tuple(map(self.sample, self.valid[: self.run.train.valid_samples]))
        return ValidationReport(step, epoch, nll, None, None, time.perf_counter() - started, samples)

    def sample(self, batch: Batch) -> Sample:
        """A text with its gaps, what stood in them, and what the model says."""
        source, target = batch.src[0].tolist(), batch.tgt_out[0].tolist()
        [[best, *_]] = search(self.model, [source[:-1]], GREEDY, self.device)
        return Sample(*(self.lexicon.decode(ids) for ids in (source[:-1], target[:-1], best.ids)))

    def describe(self) -> ModelDescription:
        return describe_model(self.run, self.lexicon)

    def name_batch(self, batch: Batch) -> str:
        return f"{len(batch.src)} windows, the first {self.lexicon.decode(batch.src[0].tolist())[:60]!r} …"


def sentinels_of(lexicon: Tokenizer) -> list[int]:
    found = lexicon.vocabulary.sentinels if isinstance(lexicon, SentencePieceTokenizer) else []
    if len(found) < 2:
        raise ConfigError("this vocabulary has no <extra_id_0>, <extra_id_1> … for the gaps: let Regard train one")
    return found
