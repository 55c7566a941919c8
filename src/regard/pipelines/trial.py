"""A trial of a model folder: open it as its users will, and let the model do once what it is for."""

from __future__ import annotations

from pathlib import Path
from typing import assert_never

import numpy as np
import torch

from regard.config import (
    BertConfig,
    DeepSeekConfig,
    GptConfig,
    RecurrentConfig,
    T5Config,
    TransformerConfig,
    ViTConfig,
)
from regard.errors import ModelFolderError, RegardError
from regard.model_folder.folder import ModelDescription, read_description
from regard.models.language_model import LanguageModel
from regard.models.load import read_model
from regard.pipelines.image_classifier import ImageClassifier
from regard.pipelines.model_translator import ModelTranslator
from regard.pipelines.text_encoder import TextEncoder
from regard.pipelines.text_generator import TextGenerator

TEXT = "This is a trial, 1 of 2."
TOKENS = 8  # that a trial generates


def try_model(folder: Path) -> None:
    """Raise an error where the folder cannot be used, or where the model computes NaN or infinity."""
    try:
        use_model(folder)
    except ModelFolderError:
        raise
    except RegardError as error:
        raise ModelFolderError(f"{folder} cannot be used: {error}") from None


def use_model(folder: Path) -> None:
    description = read_description(folder)
    match description.model:
        case TransformerConfig() | RecurrentConfig() | T5Config():
            try_translator(folder)
        case GptConfig():
            try_generator(folder)
        case BertConfig():
            check(TextEncoder(folder).embed([TEXT]), folder)
        case ViTConfig():
            try_classifier(folder)
        case DeepSeekConfig():
            try_ids(folder, description)
        case _:
            assert_never(description.model)


def try_translator(folder: Path) -> None:
    translator = ModelTranslator(folder)
    if translator.tasks:
        translator = translator.for_task(translator.tasks[0])
    translation = translator.translate([TEXT], beam=1, max_length_ratio=0.0, max_length_extra=TOKENS)[0]
    check(np.array([one.score for one in translation.alternatives]), folder)
    check(np.array(translator.score([TEXT], [TEXT])[0].token_log_probs), folder)


def try_generator(folder: Path) -> None:
    generator = TextGenerator(folder)
    [continuation] = generator.generate(TEXT, max_tokens=TOKENS, seed=1)
    check(np.array(continuation.token_log_probs), folder)


def try_classifier(folder: Path) -> None:
    classifier = ImageClassifier(folder)
    config = classifier.model.config
    pixels_CYX = np.full((config.channels, config.image_size, config.image_size), 0.5, np.float32)
    classified = classifier.classify([pixels_CYX])[0]
    check(np.array([probability for _, probability in classified.classification.labels]), folder)


def try_ids(folder: Path, description: ModelDescription) -> None:
    """A language model that has no tokenizer reads the ids 0, 1, 2."""
    model = read_model(folder, description.model, LanguageModel, "generate text")  # type: ignore[type-abstract]
    size = description.model.vocabulary_sizes[0]
    with torch.inference_mode():
        logits_1LV = model(torch.arange(3)[None] % size)
    check(logits_1LV.numpy(), folder)


def check(numbers: np.ndarray, folder: Path) -> None:
    if not np.isfinite(numbers).all():
        raise ModelFolderError(f"{folder}: the model computes NaN or infinity: its weights are corrupt")
