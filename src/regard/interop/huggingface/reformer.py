"""Import of Reformer (Kitaev et al. 2020) as a GPT with LSH attention and reversible layers.

The weights are the same; what a token sees is not quite. There a chunk is a piece of the sorted sequence, with whatever
buckets are in it, and rounds are drawn anew for every pass; here it is a part of one bucket (core/attention/lsh.py).
With one bucket, and texts of up to one of their chunks, both are full attention, and the logits are equal.

- Scores are not divided by √K there, so the matrix of queries, which are the keys, is multiplied by √K: keys are
  normalised.
- Axial positions become one table, whose row for a position has the vectors of both axes.
- Layers with local attention are refused: the attention of a GPT here is of one kind in all layers. The published
  models have them.
- The tokenizer is not imported: the model can be used from Python only, with token ids.
"""

from __future__ import annotations

import math

import numpy as np

from regard.config import DecodeConfig, GptConfig
from regard.errors import ModelFolderError
from regard.interop.huggingface.bert import ACTIVATIONS, Weights, weight_and_bias
from regard.interop.huggingface.folder import (
    HuggingFaceConfig,
    HuggingFaceFolder,
    HuggingFaceTensors,
    Imported,
    build_settings,
)
from regard.model_folder.folder import ModelDescription

POSITIONS = "embeddings.position_embeddings"


def import_reformer(folder: HuggingFaceFolder) -> Imported:
    tensors = folder.tensors()
    tensors.strip("reformer.")  # noqa: B005
    if "lm_head.decoder.weight" not in tensors:
        raise ModelFolderError(f"{folder.path} has no lm_head: Regard imports Reformer as a language model only")
    config = reformer_config(folder.config)
    folder.say("the tokenizer of a Reformer is not imported: the model can be used from Python only, with token ids")
    description = ModelDescription(config, DecodeConfig(), "", "", False, {})
    return Imported(description, reformer_weights(tensors, config))


def reformer_config(config: HuggingFaceConfig) -> GptConfig:
    """Their settings as ours; a setting that changes the mathematics and has no counterpart here is refused."""
    layers = config.texts("attn_layers")
    if set(layers) != {"lsh"}:
        raise ModelFolderError(
            f"{config.where}: attn_layers = {layers} is not supported; Regard supports 'lsh' in every layer only"
        )
    config.require("is_decoder", True, default=False)
    config.require("tie_word_embeddings", False, default=False)
    config.require("lsh_num_chunks_before", 1, default=1)
    config.require("lsh_num_chunks_after", 0, default=0)
    d_model, n_heads = config.number("hidden_size"), config.number("num_attention_heads")
    config.require("attention_head_size", d_model // max(n_heads, 1), default=64)
    chunk, longest = config.number("lsh_attn_chunk_length", 64), number_of_positions(config)
    return build_settings(
        GptConfig,
        config.where,
        d_model=d_model,
        n_heads=n_heads,
        d_ff=config.number("feed_forward_size"),
        n_layers=len(layers),
        max_positions=longest,
        ffn=ACTIVATIONS[config.require("hidden_act", *ACTIVATIONS, default="relu")],
        norm_eps=config.real("layer_norm_eps", 1e-12),
        dropout=config.real("hidden_dropout_prob", 0.05),
        attention_dropout=config.real("lsh_attention_probs_dropout_prob", 0.0),
        vocab_size=config.number("vocab_size"),
        residual="reversible",
        attention={
            "kind": "lsh",
            "n_buckets": number_of_buckets(config, max(2 * longest // max(chunk, 1), 2)),
            "chunk": chunk,
            "n_rounds": config.number("num_hashes", 1),
        },
    )


def axial_shape(config: HuggingFaceConfig) -> tuple[int, int] | None:
    """The sizes of both axes; None: positions are one table."""
    if not config.flag("axial_pos_embds", True):
        return None
    shape = config.get("axial_pos_shape", [64, 64])
    if not isinstance(shape, list) or len(shape) != 2 or not all(type(n) is int and n > 0 for n in shape):
        raise ModelFolderError(f"{config.where}: axial_pos_shape must be two whole numbers, not {shape!r}")
    return shape[0], shape[1]


def number_of_positions(config: HuggingFaceConfig) -> int:
    shape = axial_shape(config)
    return config.number("max_position_embeddings", 4096) if shape is None else math.prod(shape)


def number_of_buckets(config: HuggingFaceConfig, usual: int) -> int:
    """Where theirs are the product of two hashes, ours are as many of one; where they are not set, as is usual."""
    found = config.get("num_buckets", usual)
    numbers = found if isinstance(found, list) else [found]
    if not numbers or not all(type(n) is int and n > 0 for n in numbers):
        raise ModelFolderError(f"{config.where}: num_buckets must be whole numbers, not {found!r}")
    return math.prod(numbers)


def reformer_weights(tensors: HuggingFaceTensors, config: GptConfig) -> Weights:
    """Their tensors by our names, all of them used."""
    d_model, d_ff = config.d_model, config.d_ff
    weights: Weights = {
        "embedding.weight": tensors.take("embeddings.word_embeddings.weight", config.vocab_size, d_model),
        "positions.table_LD": position_table(tensors, config),
        "output.weight": tensors.take("lm_head.decoder.weight", config.vocab_size, 2 * d_model),
        **weight_and_bias(tensors, "last_norm", "encoder.layer_norm", 2 * d_model),
    }
    zeros = np.zeros(d_model, np.float32)
    scale = np.float32(math.sqrt(d_model // config.n_heads))
    for i in range(config.n_layers):
        ours, attention, ffn = f"layers.{i}", f"encoder.layers.{i}.attention", f"encoder.layers.{i}.feed_forward"
        weights |= weight_and_bias(tensors, f"{ours}.around_attention.norm", f"{attention}.layer_norm", d_model)
        q, v = (
            tensors.take(f"{attention}.self_attention.{name}.weight", d_model, d_model)
            for name in ("query_key", "value")
        )
        weights[f"{ours}.attention.qv.weight"] = np.concatenate([q * scale, v])
        weights[f"{ours}.attention.qv.bias"] = np.concatenate([zeros, zeros])
        weights[f"{ours}.attention.out.weight"] = tensors.take(f"{attention}.output.dense.weight", d_model, d_model)
        weights[f"{ours}.attention.out.bias"] = zeros
        weights |= weight_and_bias(tensors, f"{ours}.around_ffn.norm", f"{ffn}.layer_norm", d_model)
        weights |= weight_and_bias(tensors, f"{ours}.ffn.up", f"{ffn}.dense.dense", d_ff, d_model)
        weights |= weight_and_bias(tensors, f"{ours}.ffn.down", f"{ffn}.output.dense", d_model, d_ff)
    tensors.discard("lm_head.bias", "lm_head.decoder.bias")  # which the original does not add
    tensors.finish()
    return weights


def position_table(tensors: HuggingFaceTensors, config: GptConfig) -> np.ndarray:
    if f"{POSITIONS}.embedding.weight" in tensors:
        return tensors.take(f"{POSITIONS}.embedding.weight", config.max_positions, config.d_model)
    rows, columns = (tensors.take(f"{POSITIONS}.weights.{axis}") for axis in (0, 1))
    fits = rows.ndim == columns.ndim == 3 and rows.shape[1] == columns.shape[0] == 1
    if not fits or rows.shape[2] + columns.shape[2] != config.d_model:
        raise ModelFolderError(f"{tensors.where}: {POSITIONS}.weights are not two axes of together {config.d_model}")
    shape = (rows.shape[0], columns.shape[1])
    parts = [np.broadcast_to(axis, (*shape, axis.shape[2])) for axis in (rows, columns)]
    return np.ascontiguousarray(np.concatenate(parts, axis=2).reshape(-1, config.d_model))
