"""The tokenizer of a model folder, which must fit the model's vocabulary."""

from __future__ import annotations

from pathlib import Path

from regard.config import TranslationConfig
from regard.errors import ConfigError, ModelFolderError
from regard.model_folder.folder import ModelDescription
from regard.tokenizers.pair import TokenizerPair
from regard.tokenizers.protocol import Tokenizer, read_tokenizer


def translation_tokenizer(folder: Path, description: ModelDescription) -> TokenizerPair:
    """The tokenizer of a translator. `folder` is for errors."""
    try:
        pair = TokenizerPair.from_files(description.tokenizer, description.lowercase)
    except ConfigError as error:
        raise unreadable(folder, error) from None
    sizes = (pair.src.size, pair.tgt.size)
    if sizes != description.model.vocabulary_sizes:
        raise ModelFolderError(
            f"{folder}: the tokenizer and the model do not belong together: the tokenizer has {sizes[0]:,} source and "
            f"{sizes[1]:,} target pieces, config.json says {' and '.join(map(str, description.model.vocabulary_sizes))}"
        )
    return pair


def text_tokenizer(folder: Path, description: ModelDescription) -> Tokenizer:
    """The tokenizer of a model of one text. Imported models may have more rows than their tokenizers have pieces."""
    try:
        tokenizer = read_tokenizer(description.tokenizer, description.lowercase)
    except ConfigError as error:
        raise unreadable(folder, error) from None
    (size,) = description.model.vocabulary_sizes
    if tokenizer.size > size:
        raise ModelFolderError(
            f"{folder}: the tokenizer and the model do not belong together: the tokenizer has {tokenizer.size:,} "
            f"pieces, config.json says {size:,}"
        )
    return tokenizer


def check_tokenizer(folder: Path, description: ModelDescription) -> None:
    """Raise where the tokenizer of a folder, if it has one, does not fit the model."""
    if isinstance(description.model, TranslationConfig):
        translation_tokenizer(folder, description)
    elif description.tokenizer and description.model.vocabulary_sizes:
        text_tokenizer(folder, description)


def unreadable(folder: Path, error: ConfigError) -> ModelFolderError:
    return ModelFolderError(f"{folder}: the tokenizer cannot be read: {error}")
