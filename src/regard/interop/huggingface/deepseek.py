"""Import of DeepSeek-V3 (model_type "deepseek_v3").

Rotary pairs are adjacent there and half a head apart here, so the rows of the rotary part are permuted, in queries and
keys alike, which leaves their products unchanged. Gate and up become one matrix, and the experts are stacked. The
tokenizer is not imported: Regard has no pre-tokenizer of its kind, so the model can be used from Python only.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from regard.config import DecodeConfig, DeepSeekConfig, MixtureConfig
from regard.errors import ModelFolderError
from regard.interop.huggingface.folder import (
    HuggingFaceConfig,
    HuggingFaceFolder,
    HuggingFaceTensors,
    Imported,
    build_settings,
)
from regard.model_folder.folder import ModelDescription


def import_deepseek(folder: HuggingFaceFolder) -> Imported:
    if folder.config.get("quantization_config"):
        raise ModelFolderError(
            f"{folder.path} has quantised weights (quantization_config); Regard reads float32, bf16 and float16: "
            "convert the folder first, as DeepSeek's own fp8_cast_bf16.py does"
        )
    config = deepseek_config(folder.config)
    interleaved = folder.config.flag("rope_interleave", True)
    folder.say(
        "the tokenizer of a DeepSeek model is not imported: the model can be used from Python only, with token ids"
    )
    weights = deepseek_weights(config, interleaved, folder.tensors())
    return Imported(ModelDescription(config, DecodeConfig(), "", "", False, {}), weights)


def deepseek_config(config: HuggingFaceConfig) -> DeepSeekConfig:
    config.require("hidden_act", "silu", default="silu")
    config.require("attention_bias", False, default=False)
    config.require("scoring_func", "sigmoid", default="sigmoid")
    config.require("topk_method", "noaux_tc", default="noaux_tc")
    config.require("moe_layer_freq", 1, default=1)
    n_heads = config.number("num_attention_heads")
    config.require("num_key_value_heads", n_heads, default=n_heads)
    return build_settings(
        DeepSeekConfig,
        config.where,
        d_model=config.number("hidden_size"),
        n_heads=n_heads,
        d_ff=config.number("intermediate_size"),
        n_layers=config.number("num_hidden_layers"),
        n_dense_layers=min(config.number("first_k_dense_replace", 0), config.number("num_hidden_layers")),
        q_rank=config.number("q_lora_rank", 0),
        kv_rank=config.number("kv_lora_rank"),
        head_size=config.number("qk_nope_head_dim"),
        rotary_size=config.number("qk_rope_head_dim"),
        value_size=config.number("v_head_dim"),
        moe={
            "n_experts": config.number("n_routed_experts"),
            "experts_per_token": config.number("num_experts_per_tok"),
            "n_shared_experts": config.number("n_shared_experts", 1),
            "d_ff": config.number("moe_intermediate_size"),
            "n_groups": config.number("n_group", 1),
            "groups_per_token": config.number("topk_group", 1),
            "normalise_gates": config.flag("norm_topk_prob", True),
            "routed_scaling_factor": config.real("routed_scaling_factor", 1.0),
        },
        norm_eps=config.real("rms_norm_eps", 1e-6),
        tie_embeddings=config.flag("tie_word_embeddings", False),
        vocab_size=config.number("vocab_size"),
        **rotary_settings(config),
    )


def rotary_settings(config: HuggingFaceConfig) -> dict[str, Any]:
    """The rotary positions: rope_parameters, or rope_theta and rope_scaling in older folders."""
    rope = config.inner("rope_parameters" if config.get("rope_parameters") else "rope_scaling")
    base = rope.real("rope_theta", config.real("rope_theta", 10_000.0))
    kind = rope.get("rope_type") or rope.get("type") or "default"
    if kind == "default":
        return {"rope_theta": base}
    if kind != "yarn":
        raise ModelFolderError(
            f"{config.where}: rope_type = {kind!r} is not supported; Regard supports 'default' and 'yarn'"
        )
    for name, value in (("beta_fast", 32), ("beta_slow", 1), ("mscale", 1), ("mscale_all_dim", 1)):
        rope.require(name, value, default=None if name.startswith("mscale") else value)
    rope.require("attention_factor", None)
    rope.require("truncate", True, default=True)
    length = rope.number("original_max_position_embeddings")
    return {"rope_theta": base, "rope_scaling_factor": rope.real("factor"), "rope_original_length": length}


def deepseek_weights(config: DeepSeekConfig, interleaved: bool, tensors: HuggingFaceTensors) -> dict[str, np.ndarray]:
    """Their tensors by our names; every tensor is used or discarded."""
    if f"model.layers.{config.n_layers}.eh_proj.weight" in tensors:  # multi-token prediction
        tensors.discard(f"model.layers.{config.n_layers}.*")
    d, vocab_size = config.d_model, config.vocab_size
    weights = {
        "embedding.weight": tensors.take("model.embed_tokens.weight", vocab_size, d),
        "last_norm.weight": tensors.take("model.norm.weight", d),
    }
    if config.tie_embeddings:
        tensors.discard("lm_head.weight")
    else:
        weights["output.weight"] = tensors.take("lm_head.weight", vocab_size, d)
    for layer in range(config.n_layers):
        ours, theirs = f"layers.{layer}", f"model.layers.{layer}"
        weights[f"{ours}.around_attention.norm.weight"] = tensors.take(f"{theirs}.input_layernorm.weight", d)
        weights[f"{ours}.around_ffn.norm.weight"] = tensors.take(f"{theirs}.post_attention_layernorm.weight", d)
        found = attention_weights(config, interleaved, tensors, f"{theirs}.self_attn")
        weights |= {f"{ours}.attention.{name}.weight": array for name, array in found.items()}
        dense = layer < config.n_dense_layers
        name = f"{theirs}.mlp"
        made = network(tensors, name, config.d_ff, d) if dense else mixture(config.moe, tensors, name, d)
        weights |= {f"{ours}.ffn.{name}": array for name, array in made.items()}
    tensors.finish()
    return weights


def attention_weights(
    config: DeepSeekConfig, interleaved: bool, tensors: HuggingFaceTensors, name: str
) -> dict[str, np.ndarray]:
    c = config
    found = {}
    if c.q_rank:
        found["q_down"] = tensors.take(f"{name}.q_a_proj.weight", c.q_rank, c.d_model)
        found["q_norm"] = tensors.take(f"{name}.q_a_layernorm.weight", c.q_rank)
    q_rows, q_columns = c.n_heads * (c.head_size + c.rotary_size), c.q_rank or c.d_model
    q_up = tensors.take(f"{name}.{'q_b_proj' if c.q_rank else 'q_proj'}.weight", q_rows, q_columns)
    kv_down = tensors.take(f"{name}.kv_a_proj_with_mqa.weight", c.kv_rank + c.rotary_size, c.d_model)
    if interleaved:
        heads = q_up.reshape(c.n_heads, -1, q_columns)
        q_up = np.stack([in_halves(head, c.head_size) for head in heads]).reshape(q_rows, q_columns)
        kv_down = in_halves(kv_down, c.kv_rank)
    kv_rows = c.n_heads * (c.head_size + c.value_size)
    return {
        **found,
        "q_up": q_up,
        "kv_down": kv_down,
        "kv_norm": tensors.take(f"{name}.kv_a_layernorm.weight", c.kv_rank),
        "kv_up": tensors.take(f"{name}.kv_b_proj.weight", kv_rows, c.kv_rank),
        "out": tensors.take(f"{name}.o_proj.weight", c.d_model, c.n_heads * c.value_size),
    }


def in_halves(rows: np.ndarray, first: int) -> np.ndarray:
    """From row `first` on, interleaved pairs as two halves."""
    return np.concatenate([rows[:first], rows[first::2], rows[first + 1 :: 2]])


def network(tensors: HuggingFaceTensors, name: str, d_ff: int, d_model: int) -> dict[str, np.ndarray]:
    """One SwiGLU network."""
    gate, up = (tensors.take(f"{name}.{part}.weight", d_ff, d_model) for part in ("gate_proj", "up_proj"))
    down = tensors.take(f"{name}.down_proj.weight", d_model, d_ff)
    return {"up.weight": np.concatenate([gate, up]), "down.weight": down}


def mixture(config: MixtureConfig, tensors: HuggingFaceTensors, name: str, d_model: int) -> dict[str, np.ndarray]:
    c = config
    experts = [network(tensors, f"{name}.experts.{number}", c.d_ff, d_model) for number in range(c.n_experts)]
    n_shared = c.n_shared_experts
    shared = network(tensors, f"{name}.shared_experts", n_shared * c.d_ff, d_model) if n_shared else {}
    return {
        "gate.weight": tensors.take(f"{name}.gate.weight"),
        "gate.correction_E": tensors.take(f"{name}.gate.e_score_correction_bias", config.n_experts),
        "experts.up_weight": np.stack([one["up.weight"] for one in experts]),
        "experts.down_weight": np.stack([one["down.weight"] for one in experts]),
        **{f"shared.{part}": array for part, array in shared.items()},
    }
