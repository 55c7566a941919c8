"""Translation: predict the target tokens of sentence pairs."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from regard.config import RunConfig
from regard.data.batches import Batch, Batches, DataPosition, validation_batches
from regard.data.prepare import Prepared, Say
from regard.model_folder.folder import ModelDescription
from regard.models.build import translation_model
from regard.models.translation_model import TranslationModel
from regard.tokenizers.special_ids import PAD
from regard.train.loss import SummedLoss, vocabulary_loss
from regard.train.probes import ProbeHistory, Snapshot, take_snapshot
from regard.train.reports import ValidationReport
from regard.train.validation import validate


def translation_loss(
    model: TranslationModel, batch: Batch, device: torch.device, passes: int, smoothing: float, r_drop: float
) -> SummedLoss:
    src, tgt_in, tgt_out = (
        torch.from_numpy(ids).to(device).repeat(passes, 1) for ids in (batch.src, batch.tgt_in, batch.tgt_out)
    )
    hidden_BLD = model.hidden(src, tgt_in)
    real = tgt_out != PAD
    weight, bias, in_int8 = model.output.weight, model.output_bias, model.output.in_int8
    return vocabulary_loss(hidden_BLD[real], weight, tgt_out[real], smoothing, r_drop, bias, in_int8)


class TranslationTask:
    def __init__(self, run: RunConfig, prepared: Prepared, device: torch.device, say: Say) -> None:
        train = run.train
        self.run, self.device, self.tokenizer = run, device, prepared.tokenizer
        self.model = translation_model(run.model).to(device)
        sampling = run.data.tokenizer.dropout
        self.stream = Batches(
            prepared.train, prepared.weights, train.batch_tokens, train.seed, prepared.tokenizer, sampling
        )
        self.tokens_per_epoch = self.stream.tokens_per_epoch
        valid = [pair for pair in prepared.valid if self.fits(pair)]
        if left_out := len(prepared.valid) - len(valid):
            say(f"excluded {left_out} validation pairs that are too long for the model")
        self.valid_batches = validation_batches(prepared.tokenizer, valid, train.batch_tokens)
        self.valid_pairs = valid[: train.valid_translations]
        self.has_validation = bool(self.valid_batches)

    def fits(self, pair: tuple[str, str]) -> bool:
        """Whether the model has positions for a pair."""
        longest, (src, tgt) = self.model.longest_target, pair
        if longest is None:
            return True
        return max(len(self.tokenizer.encode_src([src])[0]), len(self.tokenizer.encode_tgt([tgt])[0])) < longest

    def batches(self, position: DataPosition) -> Iterator[tuple[Batch, DataPosition]]:
        return self.stream.iterate(position)

    def loss(self, batch: Batch, passes: int, r_drop: float) -> SummedLoss:
        smoothing = self.run.train.label_smoothing
        return translation_loss(self.model, batch, self.device, passes, smoothing, r_drop)

    def validate(self, step: int, epoch: int) -> ValidationReport:
        return validate(
            self.model,
            self.tokenizer,
            self.valid_batches,
            self.valid_pairs,
            self.run.data.tgt_lang,
            self.run.train.valid_samples,
            step,
            epoch,
            self.device,
        )

    def describe(self) -> ModelDescription:
        data = self.run.data
        prefixes = tuple(dict.fromkeys(corpus.prefix for corpus in data.train))
        return ModelDescription(
            self.run.model,
            self.run.decode,
            data.src_lang,
            data.tgt_lang,
            self.tokenizer.lowercase,
            self.tokenizer.files(),
            prefixes if any(prefixes) else (),
        )

    def describe_batch(self, batch: Batch) -> str:
        return f"{len(batch.src)} pairs, the first {self.tokenizer.decode_src(batch.src[0].tolist())!r}"

    def start_history(self) -> ProbeHistory:
        return ProbeHistory.begin(self.run.train.probes, self.tokenizer, self.model)

    def take_snapshot(self, history: ProbeHistory, step: int) -> Snapshot:
        return take_snapshot(self.model, self.tokenizer, history, step)
