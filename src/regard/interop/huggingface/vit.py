"""Import of a Vision Transformer (model_type "vit") with its classifier.

Query, key and value become one matrix, and the patch embedding, there a convolution with stride = kernel size, a linear
map; the rest is renamed.
"""

from __future__ import annotations

import numpy as np

from regard.config import DecodeConfig, ViTConfig
from regard.errors import ModelFolderError
from regard.interop.huggingface.folder import (
    HuggingFaceConfig,
    HuggingFaceFolder,
    HuggingFaceTensors,
    Imported,
    build_settings,
)
from regard.model_folder.folder import ModelDescription

PREPROCESSING = "preprocessor_config.json"
BILINEAR = 2  # Pillow's constant


def import_vit(folder: HuggingFaceFolder) -> Imported:
    tensors = folder.tensors()
    if "classifier.weight" not in tensors:
        raise ModelFolderError(f"{folder.path} has no classifier weights, which Regard's ViT needs")
    count = tensors.rows("classifier.weight")
    labels = folder.config.class_names(count) or tuple(map(str, range(count)))
    config = vit_config(folder.config, read_preprocessing(folder), len(labels))
    weights = vit_weights(config, tensors)
    return Imported(ModelDescription(config, DecodeConfig(), "", "", False, {}, labels=labels), weights)


def vit_config(config: HuggingFaceConfig, preprocessing: HuggingFaceConfig, n_labels: int) -> ViTConfig:
    config.require("hidden_act", "gelu", default="gelu")
    normalises = preprocessing.flag("do_normalize", True)
    return build_settings(
        ViTConfig,
        config.where,
        image_size=one_side(config, "image_size", 224),
        patch_size=one_side(config, "patch_size", 16),
        channels=config.number("num_channels", 3),
        mean=preprocessing.get("image_mean", (0.5,)) if normalises else (0.0,),
        std=preprocessing.get("image_std", (0.5,)) if normalises else (1.0,),
        d_model=config.number("hidden_size", 768),
        n_heads=config.number("num_attention_heads", 12),
        d_ff=config.number("intermediate_size", 3072),
        n_layers=config.number("num_hidden_layers", 12),
        norm_eps=config.real("layer_norm_eps", 1e-12),
        dropout=config.real("hidden_dropout_prob", 0.0),
        attention_dropout=config.real("attention_probs_dropout_prob", 0.0),
        n_labels=n_labels,
    )


def one_side(config: HuggingFaceConfig, name: str, default: int) -> int:
    """A size given as one number, or as height and width."""
    value = config.get(name, default)
    sides = value if isinstance(value, list) else [value]
    if not sides or not all(type(side) is int and side == sides[0] for side in sides):
        raise ModelFolderError(f"{config.where}: {name} = {value!r}; Regard supports square images and patches only")
    return int(sides[0])


def read_preprocessing(folder: HuggingFaceFolder) -> HuggingFaceConfig:
    found = folder.optional_config(PREPROCESSING)
    if not found.values:
        folder.say(f"{folder.path} has no {PREPROCESSING}: pixels are scaled to −1 … 1, the usual range")
    elif found.get("resample", BILINEAR) != BILINEAR:
        folder.say(f"{found.where}: resample = {found.get('resample')!r} is ignored; Regard resizes images bilinearly")
    return found


def vit_weights(config: ViTConfig, tensors: HuggingFaceTensors) -> dict[str, np.ndarray]:
    """Their tensors by our names, all of them used."""
    tensors.strip("vit.")
    tensors.discard("pooler.*")
    d, ff, patch = config.d_model, config.d_ff, config.patch_size
    n_positions = (config.image_size // patch) ** 2 + 1
    projection = tensors.take("embeddings.patch_embeddings.projection.weight", d, config.channels, patch, patch)
    weights = {
        "embedding.class_token_D": tensors.take("embeddings.cls_token", 1, 1, d).reshape(d),
        "embedding.patches.weight": projection.reshape(d, -1),
        "embedding.patches.bias": tensors.take("embeddings.patch_embeddings.projection.bias", d),
        "positions.table_LD": tensors.take("embeddings.position_embeddings", 1, n_positions, d)[0],
        "last_norm.weight": tensors.take("layernorm.weight", d),
        "last_norm.bias": tensors.take("layernorm.bias", d),
        "head.weight": tensors.take("classifier.weight", config.n_labels, d),
        "head.bias": tensors.take("classifier.bias", config.n_labels),
    }
    for layer in range(config.n_layers):
        ours, theirs = f"layers.{layer}", f"encoder.layer.{layer}"
        attention = [f"{theirs}.attention.attention.{part}" for part in ("query", "key", "value")]
        weights[f"{ours}.attention.qkv.weight"] = np.concatenate([tensors.take(f"{x}.weight", d, d) for x in attention])
        biases = [tensors.take_optional(f"{part}.bias", d) for part in attention]  # missing where qkv_bias is false
        weights[f"{ours}.attention.qkv.bias"] = np.concatenate(
            [np.zeros(d, np.float32) if bias is None else bias for bias in biases]
        )
        for part, name, rows, columns in (
            ("attention.out", "attention.output.dense", d, d),
            ("ffn.up", "intermediate.dense", ff, d),
            ("ffn.down", "output.dense", d, ff),
        ):
            weights[f"{ours}.{part}.weight"] = tensors.take(f"{theirs}.{name}.weight", rows, columns)
            weights[f"{ours}.{part}.bias"] = tensors.take(f"{theirs}.{name}.bias", rows)
        for part, name in (("around_attention", "layernorm_before"), ("around_ffn", "layernorm_after")):
            weights[f"{ours}.{part}.norm.weight"] = tensors.take(f"{theirs}.{name}.weight", d)
            weights[f"{ours}.{part}.norm.bias"] = tensors.take(f"{theirs}.{name}.bias", d)
    tensors.finish()
    return weights
