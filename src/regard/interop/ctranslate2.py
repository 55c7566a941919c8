"""A model folder as a CTranslate2 model: the same weights, run by OpenNMT's inference engine.

CTranslate2 has no rotary, ALiBi or T5's relative positions in an encoder–decoder, so the export refuses such models.
Its beam search divides by length^α, ours, the paper's, by ((5 + length) / 6)^α: greedy output is the same, beams may
differ.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from regard.config import TransformerConfig
from regard.config.support import FULL_ONLY, MOE, Support, any_value
from regard.errors import ModelFolderError
from regard.model_folder.atomic import atomic_folder
from regard.model_folder.folder import ModelDescription, read_description
from regard.models.load import read_fitting_weights
from regard.tokenizers.pair import TokenizerPair
from regard.tokenizers.read import translation_tokenizer
from regard.tokenizers.sentencepiece import SentencePieceModel
from regard.tokenizers.special_ids import BOS, EOS, UNK

MAX_POSITIONS = 2048  # rows of the position table, which has a fixed size in CTranslate2
GATED = ("swiglu", "geglu")
SUPPORT = Support(
    "the export to CTranslate2",
    {
        TransformerConfig: {
            "family": ("transformer",),
            "position": ("sinusoidal", "learned", "none"),
            "norm_order": ("post", "pre"),
            "norm": ("layernorm", "rmsnorm"),
            "ffn": ("relu", "gelu", "gelu_tanh", "swish", *GATED),
            "tie_embeddings": ("all", "output", "none"),
            "attention": FULL_ONLY,
            "decoder_attention": FULL_ONLY,
            "cross_attention": FULL_ONLY,
            "residual": ("standard",),
            "moe": MOE,
            **any_value("d_model", "n_heads", "d_ff", "n_encoder_layers", "n_decoder_layers", "max_positions"),
            **any_value("src_vocab_size", "tgt_vocab_size", "output_bias"),
            **any_value("dropout", "attention_dropout", "activation_dropout"),  # in training only
        }
    },
)
Weights = dict[str, np.ndarray]

# Options of CTranslate2's translate_batch, for the same search as here: special tokens are suppressed, and an empty
# translation is allowed.
SEARCH_RULES = {"suppress_sequences": [["<pad>"], ["<unk>"], ["<s>"]], "min_decoding_length": 0}


def export_ctranslate2(folder: Path, output: Path, quantization: str | None = None) -> None:
    """Write `folder` in CTranslate2's format to the new folder `output`; `quantization` such as "int8"."""
    if output.exists():
        raise ModelFolderError(f"{output} exists already; name another folder")
    description = read_description(folder)
    SUPPORT.check(description.model)
    translation_tokenizer(folder, description)
    spec = build_spec(description, read_fitting_weights(folder, description.model))
    spec.validate()
    spec.optimize(quantization=quantization)
    with atomic_folder(output) as temporary:
        spec.save(str(temporary))
        for name, proto in description.tokenizer.items():
            (temporary / name).write_bytes(proto)


def build_spec(description: ModelDescription, weights: Weights) -> Any:
    """CTranslate2's description of the model, with all weights; a ConfigError where CTranslate2 has no such model."""
    from ctranslate2.specs import TransformerSpec, common_spec

    config = description.model
    SUPPORT.check(config)
    assert isinstance(config, TransformerConfig)
    activations = {
        "relu": common_spec.Activation.RELU,
        "gelu": common_spec.Activation.GELU,
        "gelu_tanh": common_spec.Activation.GELUTanh,
        "swish": common_spec.Activation.SWISH,
        "swiglu": common_spec.Activation.SWISH,
        "geglu": common_spec.Activation.GELUTanh,
    }
    spec = TransformerSpec.from_config(
        (config.n_encoder_layers, config.n_decoder_layers),
        config.n_heads,
        pre_norm=config.norm_order == "pre",
        activation=activations[config.ffn],
        ffn_glu=config.ffn in GATED,
        rms_norm=config.norm == "rmsnorm",
    )
    spec.config.layer_norm_epsilon = 1e-6 if config.norm == "rmsnorm" else 1e-5
    fill_ends(spec, config, weights)
    for i, layer in enumerate(spec.encoder.layer):
        fill_attention(layer.self_attention, f"encoder.{i}.attention", f"encoder.{i}.around_attention", weights)
        fill_ffn(layer.ffn, f"encoder.{i}", config, weights)
    for i, layer in enumerate(spec.decoder.layer):
        fill_attention(layer.self_attention, f"decoder.{i}.attention", f"decoder.{i}.around_attention", weights)
        fill_attention(layer.attention, f"decoder.{i}.cross", f"decoder.{i}.around_cross", weights)
        fill_ffn(layer.ffn, f"decoder.{i}", config, weights)
    name_tokens(spec, TokenizerPair.from_files(description.tokenizer, description.lowercase))
    return spec


def fill_ends(spec: Any, config: TransformerConfig, weights: Weights) -> None:
    """Embeddings, positions, final norms and output."""
    target = weights["tgt_embedding.weight"]
    source = weights.get("src_embedding.weight", target)
    spec.encoder.embeddings[0].weight = source
    spec.decoder.embeddings.weight = target
    spec.decoder.projection.weight = weights.get("output.weight", target)
    if config.output_bias:
        spec.decoder.projection.bias = weights["output_bias"]
    spec.encoder.position_encodings.encodings = position_table("src_positions", config, weights)
    spec.decoder.position_encodings.encodings = position_table("tgt_positions", config, weights)
    if config.norm_order == "pre":
        fill_norm(spec.encoder.layer_norm, "encoder_norm", weights)
        fill_norm(spec.decoder.layer_norm, "decoder_norm", weights)


def position_table(name: str, config: TransformerConfig, weights: Weights) -> np.ndarray:
    if config.position == "learned":
        return weights[f"{name}.table_LD"]
    if config.position == "none":
        return np.zeros((MAX_POSITIONS, config.d_model), np.float32)
    from regard.core.positions import sinusoids

    return sinusoids(MAX_POSITIONS, config.d_model).float().numpy()


def fill_attention(spec: Any, name: str, around: str, weights: Weights) -> None:
    """Self-attention has W_Q, W_K and W_V in one matrix, as here; cross-attention has W_Q separate."""
    weight, bias = weights[f"{name}.qkv.weight"], weights[f"{name}.qkv.bias"]
    d_model = weight.shape[1]
    cuts = [(0, 3 * d_model)] if len(spec.linear) == 2 else [(0, d_model), (d_model, 3 * d_model)]
    for linear, (first, last) in zip(spec.linear, cuts, strict=False):
        linear.weight, linear.bias = weight[first:last], bias[first:last]
    fill_linear(spec.linear[-1], f"{name}.out", weights)
    fill_norm(spec.layer_norm, f"{around}.norm", weights)


def fill_ffn(spec: Any, layer: str, config: TransformerConfig, weights: Weights) -> None:
    if config.ffn in GATED:
        weight, bias = weights[f"{layer}.ffn.up.weight"], weights[f"{layer}.ffn.up.bias"]
        for linear, rows in (
            (spec.linear_0, slice(None, config.d_ff)),
            (spec.linear_0_noact, slice(config.d_ff, None)),
        ):
            linear.weight, linear.bias = weight[rows], bias[rows]
    else:
        fill_linear(spec.linear_0, f"{layer}.ffn.up", weights)
    fill_linear(spec.linear_1, f"{layer}.ffn.down", weights)
    fill_norm(spec.layer_norm, f"{layer}.around_ffn.norm", weights)


def fill_linear(spec: Any, name: str, weights: Weights) -> None:
    spec.weight, spec.bias = weights[f"{name}.weight"], weights[f"{name}.bias"]


def fill_norm(spec: Any, name: str, weights: Weights) -> None:
    spec.gamma = weights[f"{name}.weight"]
    if f"{name}.bias" in weights:
        spec.beta = weights[f"{name}.bias"]


def name_tokens(spec: Any, tokenizer: TokenizerPair) -> None:
    def pieces(vocabulary: SentencePieceModel) -> list[str]:
        return vocabulary.pieces(range(vocabulary.size))

    source, target = pieces(tokenizer.src), pieces(tokenizer.tgt)
    spec.register_source_vocabulary(source)
    spec.register_target_vocabulary(target)
    spec.config.unk_token, spec.config.bos_token, spec.config.eos_token = target[UNK], target[BOS], target[EOS]
    spec.config.decoder_start_token = target[BOS]
    spec.config.add_source_eos = True
