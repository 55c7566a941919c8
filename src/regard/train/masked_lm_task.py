"""BERT's pre-training (Devlin et al. 2019, section 3.1): masked language modelling and next-sentence prediction.

15 % of the tokens (`train.mask_probability`) are predicted: 80 % of them are replaced by [MASK], 10 % by a random
token, and 10 % are unchanged. With the head `next`, a window has two segments, [CLS] first [SEP] second [SEP], and in
half of the windows the second is a random segment of the corpora.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F

from regard.config import BertConfig, RunConfig
from regard.data.batches import DataPosition
from regard.data.texts import Ids, PreparedTexts, Windows, cut_evenly
from regard.errors import ConfigError
from regard.model_folder.folder import ModelDescription
from regard.models.bert import FOLLOWS, RANDOM, Bert
from regard.tokenizers.protocol import Tokenizer
from regard.train.loss import SummedLoss, vocabulary_loss
from regard.train.reports import ValidationReport
from regard.train.task import NoProbes
from regard.train.text_task import describe_model, window_length
from regard.train.validation import evaluation_mode

MASKED, REPLACED = 0.8, 0.1
IGNORED = -1


@dataclass(frozen=True)
class MaskedBatch:
    ids: Ids  # BL, as the model sees them
    segments: Ids  # BL
    targets: Ids  # BL, IGNORED where nothing is predicted
    follows: Ids  # B: FOLLOWS or RANDOM; empty without the head `next`

    @property
    def n_tokens(self) -> int:
        return int(np.count_nonzero(self.targets != IGNORED))


class Masker:
    """Masks tokens of windows."""

    def __init__(
        self, tokenizer: Tokenizer, pairs: bool, tokens: list[npt.NDArray[np.unsignedinteger]], asked: float
    ) -> None:
        if tokenizer.mask is None:
            raise ConfigError("this vocabulary has no [MASK] token; let Regard train one")
        self.tokenizer, self.mask, self.pairs, self.tokens, self.asked = tokenizer, tokenizer.mask, pairs, tokens, asked
        self.special = 3 if pairs else 2  # [CLS], [SEP]

    def __call__(self, window_BL: Ids, random: np.random.Generator) -> MaskedBatch:
        rows, length = window_BL.shape
        first, last = np.full((rows, 1), self.tokenizer.begin), np.full((rows, 1), self.tokenizer.end)
        half = (length + 1) // 2
        follows = np.empty(0, np.int64)
        if self.pairs:
            follows = np.where(random.random(rows) < 0.5, FOLLOWS, RANDOM)
            second_BL = window_BL[:, half:].copy()
            for row in np.flatnonzero(follows == RANDOM):
                second_BL[row] = self.random_segment(length - half, random)
            ids = np.concatenate([first, window_BL[:, :half], last, second_BL, last], axis=1)
            segments = np.zeros_like(ids)
            segments[:, half + 2 :] = 1
        else:
            ids = np.concatenate([first, window_BL, last], axis=1)
            segments = np.zeros_like(ids)
        ordinary = (ids != self.tokenizer.begin) & (ids != self.tokenizer.end)
        asked = ordinary & (random.random(ids.shape) < self.asked)
        asked[:, 1] |= ~asked.any(axis=1)  # at least one masked token per window
        targets = np.where(asked, ids, IGNORED)
        choice = random.random(ids.shape)
        others = random.integers(len(self.tokenizer.suppressed_ids) + 1, self.tokenizer.size, ids.shape)
        seen = np.where(choice < MASKED, self.mask, np.where(choice < MASKED + REPLACED, others, ids))
        return MaskedBatch(np.where(asked, seen, ids), segments, targets, follows.astype(np.int64))

    def random_segment(self, length: int, random: np.random.Generator) -> Ids:
        """A random segment of the corpora."""
        corpus = self.tokens[int(random.integers(len(self.tokens)))]
        start = int(random.integers(max(len(corpus) - length, 1)))
        return np.resize(corpus[start : start + length], length).astype(np.int64)


class MaskedLMTask(NoProbes):
    def __init__(self, run: RunConfig, config: BertConfig, prepared: PreparedTexts, device: torch.device) -> None:
        self.run, self.device, self.tokenizer = run, device, prepared.tokenizer
        self.model = Bert(config).to(device)
        self.masker = Masker(self.tokenizer, "next" in config.heads, prepared.train, run.train.mask_probability)
        length = window_length(run, self.model.longest_text) - self.masker.special
        rows = run.train.batch_tokens // (length + self.masker.special)
        self.windows = Windows(prepared.train, prepared.weights, length, rows, run.train.seed)
        self.tokens_per_epoch = self.windows.tokens_per_epoch * run.train.mask_probability
        windows = cut_evenly(prepared.valid, length, run.train.valid_windows)
        self.valid = [self.masker(window[None], np.random.default_rng((1, i))) for i, window in enumerate(windows)]
        self.has_validation = bool(self.valid)

    def batches(self, position: DataPosition) -> Iterator[tuple[MaskedBatch, DataPosition]]:
        for window_BL, after in self.windows.iterate(position):
            random = np.random.default_rng((self.run.train.seed % 2**63, position.epoch, position.batch, 1))
            yield self.masker(window_BL, random), after
            position = after

    def loss(self, batch: MaskedBatch, passes: int, r_drop: float) -> SummedLoss:
        return self.summed(batch, passes, self.run.train.label_smoothing, r_drop)

    def summed(self, batch: MaskedBatch, passes: int, smoothing: float, r_drop: float) -> SummedLoss:
        """The loss of the masked tokens, plus next-sentence prediction if the model has that head."""
        ids, segments, targets = (
            torch.from_numpy(x).to(self.device).repeat(passes, 1) for x in (batch.ids, batch.segments, batch.targets)
        )
        hidden_BLD = self.model(ids, segments)
        asked = targets != IGNORED
        head = self.model.require_head(self.model.masked_head, "masked")
        found = vocabulary_loss(
            self.model.masked_hidden(hidden_BLD[asked]),
            self.model.output.weight,
            targets[asked],
            smoothing,
            r_drop,
            head.bias_V,
            self.model.output.in_int8,
        )
        if not batch.follows.size:
            return found
        follows_B = torch.from_numpy(batch.follows).to(self.device).repeat(passes)
        next_loss = F.cross_entropy(self.model.next_logits(hidden_BLD).float(), follows_B, reduction="sum")
        # As in the paper the two means are added; the trainer divides by the number of masked tokens.
        return SummedLoss(found.objective + next_loss * (batch.n_tokens / len(batch.follows)), found.nll)

    @torch.inference_mode()
    def validate(self, step: int, epoch: int) -> ValidationReport:
        started = time.perf_counter()
        with evaluation_mode(self.model):
            total = sum(float(self.summed(batch, 1, 0.0, 0.0).nll) for batch in self.valid)
            count = sum(batch.n_tokens for batch in self.valid)
        return ValidationReport(step, epoch, total / count, None, None, time.perf_counter() - started, ())

    def describe(self) -> ModelDescription:
        return describe_model(self.run, self.tokenizer)

    def describe_batch(self, batch: MaskedBatch) -> str:
        return f"{len(batch.ids)} windows, the first {self.tokenizer.decode(batch.ids[0].tolist())[:60]!r} …"
