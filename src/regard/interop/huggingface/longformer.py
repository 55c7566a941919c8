"""Import of Longformer (Beltagy et al. 2020): a BERT with window attention, whose first token is global.

Its names become those of a BERT (bert.py). Four things differ:

- a window of w tokens is w / 2 before and w / 2 after a token;
- global queries, keys and values have matrices of their own. Which tokens are global is a choice per text in
  `transformers`; here it is the first token, as there where a text is classified;
- positions are counted from the id of padding plus one: the rows before that are left out;
- with RoBERTa's tokenizer the id of padding is 1. Here it is 0: `<s>` and `<pad>` change places.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from regard.config import BertConfig, DecodeConfig, WindowAttentionConfig
from regard.errors import ConfigError, ModelFolderError
from regard.interop.huggingface.bert import (
    TOKENIZER_CONFIG,
    TOKENIZER_JSON,
    Weights,
    bert_config,
    bert_weights,
    read_wordpiece,
)
from regard.interop.huggingface.folder import HuggingFaceConfig, HuggingFaceFolder, HuggingFaceTensors, Imported
from regard.interop.huggingface.gpt2 import read_bpe
from regard.model_folder.folder import ModelDescription
from regard.tokenizers import wordpiece
from regard.tokenizers.byte_level_bpe import PAD_PIECE, ByteLevelBpeTokenizer
from regard.tokenizers.special_ids import PAD
from regard.tokenizers.wordpiece import WordPieceTokenizer

AS_IN_BERT = {
    "lm_head.dense.": "cls.predictions.transform.dense.",
    "lm_head.layer_norm.": "cls.predictions.transform.LayerNorm.",
    "lm_head.decoder.": "cls.predictions.decoder.",
    "lm_head.bias": "cls.predictions.bias",
    "classifier.dense.": "pooler.dense.",
    "classifier.out_proj.": "classifier.",
}
N_GLOBAL_TOKENS = 1
POSITIONS = "embeddings.position_embeddings.weight"


def import_longformer(folder: HuggingFaceFolder) -> Imported:
    padding = folder.config.token("pad_token_id", folder.config.number("vocab_size"), 1)
    tokenizer = read_tokenizer(folder, padding)
    tensors = folder.tensors()
    tensors.strip("longformer.")  # noqa: B005
    for theirs, bert in AS_IN_BERT.items():
        tensors.left = {name.replace(theirs, bert, 1): tensor for name, tensor in tensors.left.items()}
    config = longformer_config(folder.config, tensors, padding)
    if tokenizer.size > config.vocab_size:
        raise ModelFolderError(
            f"{folder.path}: the tokenizer has {tokenizer.size} pieces, the model only {config.vocab_size}"
        )
    weights = longformer_weights(tensors, config, padding)
    labels = folder.config.class_names(config.n_labels) if config.n_labels else ()
    files = tokenizer.files()
    description = ModelDescription(config, DecodeConfig(), "", "", tokenizer.lowercase, files, labels=labels)
    return Imported(description, weights)


def longformer_config(config: HuggingFaceConfig, tensors: HuggingFaceTensors, padding: int) -> BertConfig:
    bert = bert_config(config, tensors)
    wide = config.get("attention_window", 512)
    windows = wide if isinstance(wide, list) else [wide]
    if not all(type(window) is int and window > 0 and window % 2 == 0 for window in windows):
        raise ModelFolderError(f"{config.where}: attention_window must be even numbers from 2 on, not {wide!r}")
    attention = WindowAttentionConfig(tuple(window // 2 for window in windows), n_global_tokens=N_GLOBAL_TOKENS)
    try:
        return replace(bert, max_positions=bert.max_positions - padding - 1, attention=attention)
    except ConfigError as error:
        raise ModelFolderError(f"{config.where} has settings that Regard does not support: {error}") from None


def longformer_weights(tensors: HuggingFaceTensors, config: BertConfig, padding: int) -> Weights:
    table_LD = tensors.take(POSITIONS, config.max_positions + padding + 1, config.d_model)
    tensors.left[POSITIONS] = np.ascontiguousarray(table_LD[padding + 1 :])
    of_global_tokens: Weights = {}
    for i in range(config.n_layers):
        for kind, shape in (("weight", (config.d_model, config.d_model)), ("bias", (config.d_model,))):
            names = [f"encoder.layer.{i}.attention.self.{part}_global.{kind}" for part in ("query", "key", "value")]
            parts = [tensors.take(name, *shape) for name in names]
            of_global_tokens[f"layers.{i}.attention.global_qkv.{kind}"] = np.concatenate(parts)
    weights = bert_weights(tensors, config) | of_global_tokens
    for name in ("embedding.weight", "masked_head.bias_V"):
        if padding != PAD and name in weights:
            weights[name] = weights[name].copy()
            weights[name][[PAD, padding]] = weights[name][[padding, PAD]]
    return weights


def read_tokenizer(folder: HuggingFaceFolder, padding: int) -> WordPieceTokenizer | ByteLevelBpeTokenizer:
    """WordPiece or RoBERTa's."""
    described = folder.optional_config(TOKENIZER_JSON).inner("model")
    if folder.has(wordpiece.FILE) or described.get("type") == "WordPiece":
        return read_wordpiece(folder)
    folder.optional_config(TOKENIZER_CONFIG).require("add_prefix_space", False, default=False)
    try:
        vocabulary, merges = read_bpe(folder)
        if vocabulary.get(PAD_PIECE) != padding:
            raise ConfigError(f"{PAD_PIECE} has the id {vocabulary.get(PAD_PIECE)}, but pad_token_id is {padding}")
        swapped = {PAD: padding, padding: PAD}
        return ByteLevelBpeTokenizer({piece: swapped.get(i, i) for piece, i in vocabulary.items()}, merges)
    except ConfigError as error:
        raise ModelFolderError(f"{folder.path}: the tokenizer cannot be read: {error}") from None
