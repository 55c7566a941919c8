"""Import of T5 and mT5 (Raffel et al. 2020; Xue et al. 2021).

Their tokenizer is one SentencePiece model, spiece.model. After its ids come the sentinels of span corruption
(<extra_id_0> last), then unused ids up to a round number. It is imported in the format of OPUS-MT
(tokenizers/listed_sentencepiece.py), with the SentencePiece model for both languages and a list of these ids.
"""

from __future__ import annotations

import json

import numpy as np
import sentencepiece

from regard.config import FeedForwardKind, T5Config
from regard.errors import ModelFolderError
from regard.interop.huggingface.folder import (
    HuggingFaceConfig,
    HuggingFaceFolder,
    HuggingFaceTensors,
    Imported,
    build_settings,
)
from regard.interop.huggingface.generation import decode_settings
from regard.interop.huggingface.marian import LONGEST, SUPPRESSED_LOGIT, Weights
from regard.model_folder.folder import ModelDescription
from regard.tokenizers.listed_sentencepiece import EOS_PIECE, PAD_PIECE, UNK_PIECE, listed_order
from regard.tokenizers.pair import LIST_FILE, SOURCE_SPM, TARGET_SPM
from regard.tokenizers.special_ids import BOS

PIECES = "spiece.model"
SENTINELS = 100  # where a folder does not specify it
ACTIVATIONS: dict[str, FeedForwardKind] = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "silu": "swish",
    "gated-gelu": "geglu",
    "gated-silu": "swiglu",
}


def import_t5(folder: HuggingFaceFolder) -> Imported:
    tensors = folder.tensors()
    proto = folder.bytes(PIECES)
    check_vocabulary(tensors, folder.config)
    numbers = number_pieces(folder, proto)
    order = listed_order(numbers)
    order[BOS] = folder.config.token("decoder_start_token_id", len(numbers), order[BOS])
    own_output = has_own_output(tensors)
    config = t5_config(folder.config, len(order), own_output)
    weights = t5_weights(tensors, config, order)
    listing = json.dumps(numbers, ensure_ascii=False).encode()
    files = {SOURCE_SPM: proto, TARGET_SPM: proto, LIST_FILE: listing}
    decode = decode_settings(folder, beam=1, longest=LONGEST)
    return Imported(ModelDescription(config, decode, "", "", False, files, task_prefixes(folder.config)), weights)


def check_vocabulary(tensors: HuggingFaceTensors, config: HuggingFaceConfig) -> None:
    """Compare the size of the vocabulary with the weights before as many pieces are named."""
    name = "shared.weight" if "shared.weight" in tensors else "encoder.embed_tokens.weight"
    tensors.check(name, config.number("vocab_size"), config.number("d_model"))


def number_pieces(folder: HuggingFaceFolder, proto: bytes) -> dict[str, int]:
    """The id of each piece, with one piece per row of the embeddings."""
    where, size = folder.path / PIECES, folder.config.number("vocab_size")
    try:
        processor = sentencepiece.SentencePieceProcessor(model_proto=proto)
        pieces = [processor.id_to_piece(i) for i in range(processor.vocab_size())] if proto else []
    except (ValueError, RuntimeError, OSError):
        pieces = []
    if not pieces:
        raise ModelFolderError(f"{where} is not a SentencePiece model, or it is corrupt") from None
    if len(pieces) > size:
        raise ModelFolderError(f"{where} has {len(pieces)} pieces, but the model has only {size}")
    wanted = folder.optional_config("tokenizer_config.json").number("extra_ids", SENTINELS)
    sentinels = max(0, min(wanted, size - len(pieces)))
    pieces += [f"<extra_id_{i}>" for i in reversed(range(sentinels))]
    pieces += [f"<unused_{i}>" for i in range(len(pieces), size)]
    numbers = {piece: i for i, piece in enumerate(pieces)}
    for piece, name in ((PAD_PIECE, "pad_token_id"), (EOS_PIECE, "eos_token_id")):
        if piece not in numbers:
            raise ModelFolderError(f"{where} has no piece {piece}")
        folder.config.require(name, numbers[piece], default=numbers[piece])
    if UNK_PIECE not in numbers or len(numbers) < len(pieces):
        raise ModelFolderError(f"{where} is not a T5 tokenizer: it has no {UNK_PIECE}, or has duplicate pieces")
    return numbers


def has_own_output(tensors: HuggingFaceTensors) -> bool:
    """Whether the output has its own matrix. Compared by value: some folders declare it shared, but store two."""
    if "lm_head.weight" not in tensors:
        return False
    shared = next((name for name in ("shared.weight", "decoder.embed_tokens.weight") if name in tensors), None)
    return shared is None or not np.array_equal(tensors.left[shared], tensors.left["lm_head.weight"])


def t5_config(config: HuggingFaceConfig, size: int, own_output: bool) -> T5Config:
    """Their settings as ours."""
    layers = config.number("num_layers")
    activation = config.require("feed_forward_proj", *ACTIVATIONS, default="relu")
    # In version 1.1 and mT5 untied embeddings imply unscaled outputs; newer files state both.
    tied = config.get("model_type") != "mt5" and config.get("tie_word_embeddings") is not False
    scale = config.flag("scale_decoder_outputs", tied)
    return build_settings(
        T5Config,
        config.where,
        d_model=config.number("d_model"),
        n_heads=config.number("num_heads"),
        head_size=config.number("d_kv"),
        d_ff=config.number("d_ff"),
        n_encoder_layers=layers,
        n_decoder_layers=config.number("num_decoder_layers", layers),
        ffn=ACTIVATIONS[activation],
        n_buckets=config.number("relative_attention_num_buckets", 32),
        max_distance=config.number("relative_attention_max_distance", 128),
        norm_eps=config.real("layer_norm_epsilon", 1e-6),
        tie_embeddings="inputs" if own_output else "all",
        scale_output=scale,
        dropout=config.real("dropout_rate", 0.1),
        src_vocab_size=size,
        tgt_vocab_size=size,
        output_bias=True,
    )


def t5_weights(tensors: HuggingFaceTensors, config: T5Config, order: list[int]) -> Weights:
    """Their tensors by our names, all of them used."""
    weights: Weights = {}
    for side, count in (("encoder", config.n_encoder_layers), ("decoder", config.n_decoder_layers)):
        for i in range(count):
            weights |= take_layer(tensors, config, side, i)
        weights[f"{side}_norm.weight"] = tensors.take(f"{side}.final_layer_norm.weight", config.d_model)
    for ours, side in (("src_positions", "encoder"), ("tgt_positions", "decoder")):
        name = f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        weights[f"{ours}.table"] = tensors.take(name, config.n_buckets, config.n_heads)
    shared = "shared.weight" if "shared.weight" in tensors else "encoder.embed_tokens.weight"
    table = tensors.take(shared, len(order) - 1, config.d_model)  # BOS, a copy, is not in it
    weights["tgt_embedding.weight"] = table[order]
    if config.tie_embeddings == "inputs":
        weights["output.weight"] = tensors.take("lm_head.weight", *table.shape)[order]
    weights["output_bias"] = np.zeros(len(order), np.float32)
    weights["output_bias"][BOS] = SUPPRESSED_LOGIT  # a copy of padding, which must not be predicted twice
    # Copies of the table, and unused positions of the cross-attention in older files.
    tensors.discard("*coder.embed_tokens.weight", "lm_head.weight", "*.EncDecAttention.relative_attention_bias.weight")
    tensors.finish()
    return weights


def take_layer(tensors: HuggingFaceTensors, config: T5Config, side: str, i: int) -> Weights:
    """Their sublayers are numbered: self-attention, cross-attention (decoder only), feed-forward."""
    ours, theirs = f"{side}.{i}", f"{side}.block.{i}.layer"
    parts = ("attention", "cross", "ffn") if side == "decoder" else ("attention", "ffn")
    names = {"attention": "SelfAttention", "cross": "EncDecAttention"}
    weights: Weights = {}
    for number, part in enumerate(parts):
        own = f"{theirs}.{number}"
        weights[f"{ours}.around_{part}.norm.weight"] = tensors.take(f"{own}.layer_norm.weight", config.d_model)
        if part != "ffn":
            inner, name = config.n_heads * config.head_size, f"{own}.{names[part]}"
            matrices = [tensors.take(f"{name}.{letter}.weight", inner, config.d_model) for letter in "qkv"]
            weights[f"{ours}.{part}.qkv.weight"] = np.concatenate(matrices)
            weights[f"{ours}.{part}.out.weight"] = tensors.take(f"{name}.o.weight", config.d_model, inner)
            continue
        up = ("wi_0", "wi_1") if config.ffn in ("geglu", "swiglu") else ("wi",)
        matrices = [tensors.take(f"{own}.DenseReluDense.{name}.weight", config.d_ff, config.d_model) for name in up]
        weights[f"{ours}.ffn.up.weight"] = np.concatenate(matrices)
        weights[f"{ours}.ffn.down.weight"] = tensors.take(
            f"{own}.DenseReluDense.wo.weight", config.d_model, config.d_ff
        )
    return weights


def task_prefixes(config: HuggingFaceConfig) -> tuple[str, ...]:
    """The task prefixes that the settings name."""
    tasks = config.table("task_specific_params")
    prefixes = [task.get("prefix") for task in tasks.values() if isinstance(task, dict)]
    return tuple(dict.fromkeys(prefix for prefix in prefixes if isinstance(prefix, str) and prefix))
