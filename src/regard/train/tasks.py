"""Selects the task of a run by the model's family, and prepares its data."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import assert_never

import torch

from regard.config import (
    BertConfig,
    DeepSeekConfig,
    GptConfig,
    RecurrentConfig,
    RunConfig,
    T5Config,
    TransformerConfig,
    ViTConfig,
    is_synthetic,
    learns_from_text,
)
from regard.data.examples import PreparedImages, PreparedLabels, prepare_images, prepare_labels
from regard.data.prepare import Prepared, Say, prepare
from regard.data.synthetic import PreparedSynthetic, prepare_synthetic
from regard.data.texts import PreparedTexts, prepare_texts
from regard.errors import ConfigError
from regard.model_folder.folder import ModelDescription
from regard.tokenizers.pair import TokenizerPair
from regard.tokenizers.protocol import Tokenizer, read_tokenizer
from regard.tokenizers.sentencepiece import sentinel
from regard.train.classification_task import ImageClassificationTask, TextClassificationTask
from regard.train.language_modeling_task import LanguageModelingTask
from regard.train.masked_lm_task import MaskedLMTask
from regard.train.span_corruption_task import SpanCorruptionTask
from regard.train.synthetic_task import SyntheticTask
from regard.train.task import Task
from regard.train.translation_task import TranslationTask

SENTINELS = tuple(map(sentinel, range(32)))  # T5 has 100; a text of 600 tokens has 30 spans
AnyPrepared = Prepared | PreparedTexts | PreparedSynthetic | PreparedLabels | PreparedImages


def prepare_run(
    run: RunConfig, cache: Path, say: Say, saved: ModelDescription | None = None
) -> tuple[RunConfig, AnyPrepared]:
    """Prepare the data of a run; returns the run with its vocabulary sizes and the data.

    The tokenizer and labels of `saved` are reused.
    """
    model = run.model
    match model:
        case T5Config() if learns_from_text(run.data):
            texts = prepare_texts(run.data, cache, say, saved_tokenizer(saved), SENTINELS)
            return fill_sizes(run, texts.tokenizer.size, texts.tokenizer.size), texts
        case TransformerConfig() | RecurrentConfig() | T5Config():
            tokenizer = None if saved is None else TokenizerPair.from_files(saved.tokenizer, saved.lowercase)
            pairs = prepare(run.data, cache, say, tokenizer)
            return fill_sizes(run, pairs.tokenizer.src.size, pairs.tokenizer.tgt.size), pairs
        case GptConfig() | DeepSeekConfig() if is_synthetic(run.data):
            synthetic = prepare_synthetic(run.data)
            return fill_sizes(run, synthetic.tokenizer.size), synthetic
        case GptConfig() | DeepSeekConfig():
            texts = prepare_texts(run.data, cache, say, saved_tokenizer(saved))
            return fill_sizes(run, texts.tokenizer.size), texts
        case BertConfig():
            return prepare_bert(run, model, cache, say, saved)
        case ViTConfig():
            images = prepare_images(run.data, model, saved_labels(saved))
            return dataclasses.replace(run, model=dataclasses.replace(model, n_labels=len(images.labels))), images
        case _:
            assert_never(model)


def prepare_bert(
    run: RunConfig, model: BertConfig, cache: Path, say: Say, saved: ModelDescription | None
) -> tuple[RunConfig, AnyPrepared]:
    """The task depends on the heads."""
    if "classes" in model.heads:
        labels = prepare_labels(run.data, cache, say, saved_tokenizer(saved), saved_labels(saved))
        model = dataclasses.replace(model, n_labels=len(labels.labels), vocab_size=labels.tokenizer.size)
        return dataclasses.replace(run, model=model), labels
    if "masked" in model.heads:
        texts = prepare_texts(run.data, cache, say, saved_tokenizer(saved))
        return fill_sizes(run, texts.tokenizer.size), texts
    raise ConfigError(
        f"model.heads = {list(model.heads)} has no head that Regard trains: 'masked' (and 'next') learn from running "
        f"text, 'classes' from texts with labels"
    )


def saved_tokenizer(saved: ModelDescription | None) -> Tokenizer | None:
    return None if saved is None else read_tokenizer(saved.tokenizer, saved.lowercase)


def saved_labels(saved: ModelDescription | None) -> tuple[str, ...]:
    return () if saved is None else saved.labels


def fill_sizes(run: RunConfig, src: int, tgt: int | None = None) -> RunConfig:
    """The run with the vocabulary sizes of its tokenizer."""
    return dataclasses.replace(run, model=run.model.with_vocabulary(src, tgt))


def build_task(run: RunConfig, prepared: AnyPrepared, device: torch.device, say: Say) -> Task:
    match prepared:
        case Prepared():
            return TranslationTask(run, prepared, device, say)
        case PreparedTexts() if isinstance(run.model, BertConfig):
            return MaskedLMTask(run, run.model, prepared, device)
        case PreparedTexts() if isinstance(run.model, T5Config):
            return SpanCorruptionTask(run, prepared, device)
        case PreparedTexts():
            return LanguageModelingTask(run, prepared, device)
        case PreparedSynthetic():
            return SyntheticTask(run, prepared, device)
        case PreparedLabels():
            assert isinstance(run.model, BertConfig)
            return TextClassificationTask(run, run.model, prepared, device)
        case PreparedImages():
            assert isinstance(run.model, ViTConfig)
            return ImageClassificationTask(run, run.model, prepared, device)
        case _:
            assert_never(prepared)
