"""Validation of translation models: loss, and BLEU and chrF of greedy translations."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import nn

from regard.config import DecodeConfig
from regard.data.batches import Batch
from regard.decode.search import search
from regard.evaluation.scores import measure
from regard.models.translation_model import TranslationModel
from regard.tokenizers.pair import TokenizerPair
from regard.tokenizers.special_ids import PAD
from regard.train.loss import vocabulary_loss
from regard.train.reports import Sample, ValidationReport

GREEDY = DecodeConfig(beam=1)


@contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Without dropout and in float32 within the block; float32 is as fast for decoding token by token."""
    compute_dtype = model.compute_dtype
    set_precision(model, None)
    model.eval()
    try:
        yield
    finally:
        set_precision(model, compute_dtype)  # type: ignore[arg-type]
        model.train()


def set_precision(model: nn.Module, dtype: torch.dtype | None) -> None:
    """Set the dtype of the activations; None: that of the weights."""
    model.compute_dtype = dtype  # type: ignore[assignment]


@torch.inference_mode()
def mean_nll(model: TranslationModel, batches: Sequence[Batch], device: torch.device) -> float:
    """−log p per target token, including end of sentence."""
    total, count = 0.0, 0
    for batch in batches:
        src, tgt_in, tgt_out = (torch.from_numpy(ids).to(device) for ids in (batch.src, batch.tgt_in, batch.tgt_out))
        hidden_BLD = model.hidden(src, tgt_in)
        real = tgt_out != PAD
        weight, bias = model.output.weight, model.output_bias
        total += float(vocabulary_loss(hidden_BLD[real], weight, tgt_out[real], bias_V=bias).nll)
        count += batch.n_tokens
    return total / max(count, 1)


def validate(
    model: TranslationModel,
    tokenizer: TokenizerPair,
    batches: Sequence[Batch],
    pairs: Sequence[tuple[str, str]],
    tgt_lang: str,
    n_samples: int,
    step: int,
    epoch: int,
    device: torch.device,
) -> ValidationReport:
    """Loss over `batches`; BLEU and chrF of greedy translations of `pairs`, some of them shown."""
    started = time.perf_counter()
    with evaluation_mode(model):
        nll = mean_nll(model, batches, device)
        bleu = chrf = None
        samples: tuple[Sample, ...] = ()
        if pairs and math.isfinite(nll):
            sources, references = zip(*pairs, strict=True)
            found = search(model, tokenizer.encode_src(sources), GREEDY, device)
            outputs = [tokenizer.decode_tgt(hypotheses[0].ids) for hypotheses in found]
            wanted = [text.lower() if tokenizer.lowercase else text for text in references]
            bleu, chrf = (quality.score for quality in measure(outputs, wanted, tgt_lang))
            shown = list(zip(sources, references, outputs, strict=True))[:n_samples]
            samples = tuple(Sample(*texts) for texts in shown)
    return ValidationReport(step, epoch, nll, bleu, chrf, time.perf_counter() - started, samples)
