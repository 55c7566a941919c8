"""Import of BERT (Devlin et al. 2019) with the heads it was saved with.

Query, key and value become one matrix; the rest is renamed. The weights determine the heads: `cls.predictions` predicts
masked tokens, `cls.seq_relationship` next sentences, and `classifier` classifies texts or, where the folder's
architecture is …ForTokenClassification, tokens.
"""

from __future__ import annotations

import numpy as np

from regard.config import BertConfig, BertHead, DecodeConfig, FeedForwardKind
from regard.errors import ConfigError, ModelFolderError
from regard.interop.huggingface.folder import (
    HuggingFaceConfig,
    HuggingFaceFolder,
    HuggingFaceTensors,
    Imported,
    build_settings,
)
from regard.model_folder.folder import ModelDescription
from regard.tokenizers import wordpiece
from regard.tokenizers.wordpiece import WordPieceTokenizer

ACTIVATIONS: dict[str, FeedForwardKind] = {
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
    "silu": "swish",
    "swish": "swish",
}
TOKENS = "ForTokenClassification"
TOKENIZERS = ("BertTokenizer", "BertTokenizerFast", "PreTrainedTokenizerFast", "TokenizersBackend")
TOKENIZER_CONFIG, TOKENIZER_JSON = "tokenizer_config.json", "tokenizer.json"
Weights = dict[str, np.ndarray]


def import_bert(folder: HuggingFaceFolder) -> Imported:
    tokenizer = read_wordpiece(folder)
    tensors = folder.tensors()
    tensors.strip("bert.")
    rename_norms(tensors)
    config = bert_config(folder.config, tensors)
    if tokenizer.size > config.vocab_size:
        raise ModelFolderError(
            f"{folder.path}: the tokenizer has {tokenizer.size} pieces, the model only {config.vocab_size}"
        )
    weights = bert_weights(tensors, config)
    labels = folder.config.class_names(config.n_labels) if config.n_labels else ()
    files = tokenizer.files()
    description = ModelDescription(config, DecodeConfig(), "", "", tokenizer.lowercase, files, labels=labels)
    return Imported(description, weights)


def bert_config(config: HuggingFaceConfig, tensors: HuggingFaceTensors) -> BertConfig:
    config.require("position_embedding_type", "absolute", default="absolute")
    for name in ("is_decoder", "add_cross_attention"):
        config.require(name, False, default=False)
    heads: list[BertHead] = []
    if "cls.predictions.transform.dense.weight" in tensors:
        heads.append("masked")
    if "cls.seq_relationship.weight" in tensors:
        heads.append("next")
    n_labels = 0
    if "classifier.weight" in tensors:
        heads.append("tags" if any(name.endswith(TOKENS) for name in config.texts("architectures")) else "classes")
        n_labels = tensors.rows("classifier.weight")
        config.require("problem_type", None, "single_label_classification")
        if n_labels < 2:
            raise ModelFolderError(
                f"{config.where}: the classifier has one output; Regard supports classification only, not regression"
            )
    return build_settings(
        BertConfig,
        config.where,
        d_model=config.number("hidden_size"),
        n_heads=config.number("num_attention_heads"),
        d_ff=config.number("intermediate_size"),
        n_layers=config.number("num_hidden_layers"),
        max_positions=config.number("max_position_embeddings"),
        n_segments=config.number("type_vocab_size", 2),
        heads=heads,
        pooler="pooler.dense.weight" in tensors,
        n_labels=n_labels,
        ffn=ACTIVATIONS[config.require("hidden_act", *ACTIVATIONS, default="gelu")],
        norm_eps=config.real("layer_norm_eps", 1e-12),
        dropout=config.real("hidden_dropout_prob", 0.1),
        attention_dropout=config.real("attention_probs_dropout_prob", 0.1),
        vocab_size=config.number("vocab_size"),
    )


def bert_weights(tensors: HuggingFaceTensors, config: BertConfig) -> Weights:
    """Their tensors by our names, all of them used."""
    d_model, d_ff = config.d_model, config.d_ff
    weights: Weights = {
        "embedding.weight": tensors.take("embeddings.word_embeddings.weight", config.vocab_size, d_model),
        "positions.table_LD": tensors.take("embeddings.position_embeddings.weight", config.max_positions, d_model),
        "segments.weight": tensors.take("embeddings.token_type_embeddings.weight", config.n_segments, d_model),
        **weight_and_bias(tensors, "first_norm", "embeddings.LayerNorm", d_model),
    }
    for i in range(config.n_layers):
        ours, theirs = f"layers.{i}", f"encoder.layer.{i}"
        for kind in ("weight", "bias"):
            shape = (d_model, d_model) if kind == "weight" else (d_model,)
            parts = [
                tensors.take(f"{theirs}.attention.self.{part}.{kind}", *shape) for part in ("query", "key", "value")
            ]
            weights[f"{ours}.attention.qkv.{kind}"] = np.concatenate(parts)
        weights |= weight_and_bias(
            tensors, f"{ours}.attention.out", f"{theirs}.attention.output.dense", d_model, d_model
        )
        weights |= weight_and_bias(
            tensors, f"{ours}.around_attention.norm", f"{theirs}.attention.output.LayerNorm", d_model
        )
        weights |= weight_and_bias(tensors, f"{ours}.ffn.up", f"{theirs}.intermediate.dense", d_ff, d_model)
        weights |= weight_and_bias(tensors, f"{ours}.ffn.down", f"{theirs}.output.dense", d_model, d_ff)
        weights |= weight_and_bias(tensors, f"{ours}.around_ffn.norm", f"{theirs}.output.LayerNorm", d_model)
    weights |= head_weights(tensors, config, weights["embedding.weight"])
    tensors.discard("embeddings.position_ids")  # 0, 1, 2, …
    tensors.finish()
    return weights


def head_weights(tensors: HuggingFaceTensors, config: BertConfig, embedding_VD: np.ndarray) -> Weights:
    d_model = config.d_model
    weights: Weights = {}
    if config.pooler:
        weights |= weight_and_bias(tensors, "pooler.map", "pooler.dense", d_model, d_model)
    if "masked" in config.heads:
        weights |= weight_and_bias(tensors, "masked_head.map", "cls.predictions.transform.dense", d_model, d_model)
        weights |= weight_and_bias(tensors, "masked_head.norm", "cls.predictions.transform.LayerNorm", d_model)
        bias = tensors.take("cls.predictions.bias", config.vocab_size)
        weights["masked_head.bias_V"] = bias
        for name, copied in (("weight", embedding_VD), ("bias", bias)):
            copy = tensors.take_optional(f"cls.predictions.decoder.{name}")
            if copy is not None and not np.array_equal(copy, copied):
                raise ModelFolderError(
                    f"{tensors.where}: the output has a separate {name} (cls.predictions.decoder.{name}); "
                    "Regard shares that of the embeddings"
                )
    if "next" in config.heads:
        weights |= weight_and_bias(tensors, "next_head", "cls.seq_relationship", 2, d_model)
    for head, ours in (("classes", "class_head"), ("tags", "tag_head")):
        if head in config.heads:
            weights |= weight_and_bias(tensors, ours, "classifier", config.n_labels, d_model)
    return weights


def weight_and_bias(tensors: HuggingFaceTensors, ours: str, theirs: str, *shape: int) -> Weights:
    """The weight, of this shape, and the bias, of its first dimension."""
    return {
        f"{ours}.weight": tensors.take(f"{theirs}.weight", *shape),
        f"{ours}.bias": tensors.take(f"{theirs}.bias", shape[0]),
    }


def rename_norms(tensors: HuggingFaceTensors) -> None:
    """The first BERT models call the weight and bias of a norm gamma and beta."""
    for old, new in (("LayerNorm.gamma", "LayerNorm.weight"), ("LayerNorm.beta", "LayerNorm.bias")):
        renamed = {name.replace(old, new): tensor for name, tensor in tensors.left.items()}
        if len(renamed) < len(tensors.left):
            raise ModelFolderError(f"{tensors.where}: the weights have some norm both as {old} and as {new}")
        tensors.left = renamed


def read_ids(model: HuggingFaceConfig) -> dict[str, int]:
    """The vocabulary in a tokenizer.json: the id of each piece."""
    numbers = model.table("vocab")
    if not all(type(number) is int for number in numbers.values()):
        raise ModelFolderError(f"{model.where}: model.vocab must give each piece a whole number")
    return numbers


def read_wordpiece(folder: HuggingFaceFolder) -> WordPieceTokenizer:
    """The tokenizer from vocab.txt, or from tokenizer.json in newer folders."""
    tokenizer_config = folder.optional_config(TOKENIZER_CONFIG)
    tokenizer_config.require("tokenizer_class", *TOKENIZERS, default=TOKENIZERS[0])
    lowercase = tokenizer_config.flag("do_lower_case", True)
    tokenizer_config.require("strip_accents", None, lowercase)
    tokenizer_config.require("tokenize_chinese_chars", True, default=True)
    try:
        if folder.has(wordpiece.FILE) or not folder.has(TOKENIZER_JSON):
            return WordPieceTokenizer.from_files({wordpiece.FILE: folder.bytes(wordpiece.FILE)}, lowercase)
        model = folder.optional_config(TOKENIZER_JSON).inner("model")
        numbers = read_ids(model)
        if model.get("type") != "WordPiece" or sorted(numbers.values()) != list(range(len(numbers))):
            raise ConfigError("tokenizer.json is not a WordPiece tokenizer with consecutive ids")
        return WordPieceTokenizer(sorted(numbers, key=numbers.__getitem__), lowercase)
    except ConfigError as error:
        raise ModelFolderError(f"{folder.path}: the tokenizer cannot be read: {error}") from None
