"""The tokenizer in a model folder, and whether it belongs to the model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from regard.config import BertConfig, DecodeConfig, TransformerConfig
from regard.errors import ModelFolderError
from regard.model_folder.folder import ModelDescription
from regard.tokenizers.read import check_tokenizer, text_tokenizer, translation_tokenizer
from regard.tokenizers.training import train_vocabulary

VOCABULARY = train_vocabulary(["the cat sat"] * 5, "bpe", 290, symbols=["[MASK]"])
SIZE, FOLDER = VOCABULARY.size, Path("here")
GOOD, DAMAGED = {"tokenizer.model": VOCABULARY.proto}, {"tokenizer.model": b"damaged"}


def translator(size: int, tokenizer: Mapping[str, bytes]) -> ModelDescription:
    model = TransformerConfig(src_vocab_size=size, tgt_vocab_size=size)
    return ModelDescription(model, DecodeConfig(), "en", "zh", False, tokenizer)


def reader(size: int, tokenizer: Mapping[str, bytes]) -> ModelDescription:
    return ModelDescription(BertConfig(vocab_size=size), DecodeConfig(), "en", "en", False, tokenizer)


def test_a_tokenizer_that_belongs_to_its_model() -> None:
    assert translation_tokenizer(FOLDER, translator(SIZE, GOOD)).files() == GOOD
    assert text_tokenizer(FOLDER, reader(SIZE, GOOD)).files() == GOOD
    assert text_tokenizer(FOLDER, reader(SIZE + 1, GOOD)).files() == GOOD  # imported models may have more rows
    for description in (translator(SIZE, GOOD), reader(SIZE, GOOD), reader(SIZE, {})):
        check_tokenizer(FOLDER, description)


@pytest.mark.parametrize(
    ("description", "said"),
    [
        (translator(SIZE, DAMAGED), "the tokenizer cannot be read: tokenizer.model: this is not a SentencePiece model"),
        (translator(SIZE + 1, GOOD), f"has {SIZE} source and {SIZE} target pieces, config.json says {SIZE + 1} and "),
        (reader(SIZE, DAMAGED), "the tokenizer cannot be read: this is not a SentencePiece model"),
        (reader(SIZE - 1, GOOD), f"the tokenizer has {SIZE} pieces, config.json says {SIZE - 1}"),
    ],
)
def test_a_tokenizer_that_does_not(description: ModelDescription, said: str) -> None:
    with pytest.raises(ModelFolderError) as raised:
        check_tokenizer(FOLDER, description)
    assert str(raised.value).startswith("here: ")
    assert said in str(raised.value)
