"""An imported DeepSeek-V3 of `transformers`: the same logits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from regard.errors import ModelFolderError
from regard.interop.huggingface.imports import import_folder
from regard.model_folder.folder import read_description
from regard.models.deepseek import DeepSeek
from regard.models.load import read_model

transformers = pytest.importorskip("transformers")

SIZES: dict[str, Any] = {
    "vocab_size": 31, "hidden_size": 16, "intermediate_size": 20, "moe_intermediate_size": 8, "num_hidden_layers": 3,
    "num_attention_heads": 2, "num_key_value_heads": 2, "n_shared_experts": 2, "n_routed_experts": 8,
    "kv_lora_rank": 8, "q_lora_rank": 6, "qk_rope_head_dim": 4, "v_head_dim": 5, "qk_nope_head_dim": 6, "n_group": 4,
    "topk_group": 2, "num_experts_per_tok": 3, "first_k_dense_replace": 1, "max_position_embeddings": 64,
}  # fmt: skip
YARN = {
    "rope_type": "yarn", "rope_theta": 10_000.0, "factor": 40.0, "beta_fast": 32, "beta_slow": 1, "mscale": 1.0,
    "mscale_all_dim": 1.0, "original_max_position_embeddings": 4096,
}  # fmt: skip


def save(path: Path, **changes: Any) -> Any:
    """A real model with random weights of some size, saved in a folder."""
    torch.manual_seed(1)
    config = transformers.DeepseekV3Config(**{**SIZES, **changes})
    model = transformers.DeepseekV3ForCausalLM(config).eval()
    with torch.no_grad():
        corrections = [buffer for name, buffer in model.named_buffers() if name.endswith("correction_bias")]
        for parameter in [*model.parameters(), *corrections]:
            parameter.add_(torch.randn_like(parameter) * 0.2)
    model.save_pretrained(path)
    return model


def load(path: Path) -> DeepSeek:
    return read_model(path, read_description(path).model, DeepSeek, "go on with a text")


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"q_lora_rank": None},
        {"rope_interleave": False},
        {"norm_topk_prob": False, "n_group": 1, "topk_group": 1},
        {"tie_word_embeddings": True, "first_k_dense_replace": 0},
        {"rope_parameters": YARN, "qk_rope_head_dim": 16, "max_position_embeddings": 163_840},
        {"rope_parameters": {"rope_type": "default", "rope_theta": 500.0}},
    ],
    ids=["plain", "queries-direct", "halves", "no-groups", "tied", "yarn", "base"],
)
def test_the_same_logits(tmp_path: Path, changes: dict[str, Any]) -> None:
    theirs = save(tmp_path / "hf", **changes)
    said: list[str] = []
    import_folder(tmp_path / "hf", tmp_path / "ours", said.append)
    assert any("tokenizer" in line for line in said)
    ours = load(tmp_path / "ours")
    ids = torch.randint(0, 31, (3, 12), generator=torch.Generator().manual_seed(2))
    attended = torch.tensor([[1] * 12, [1] * 7 + [0] * 5, [1] * 1 + [0] * 11])
    with torch.no_grad():
        expected = theirs(ids, attention_mask=attended).logits
        actual = ours(ids)
    real = attended.bool()
    torch.testing.assert_close(actual[real], expected[real], rtol=0, atol=1e-5)
    assert expected.std() > 0.05
    # And step by step, through the compressed cache.
    state = ours.begin(3, 12)
    for place in range(12):
        step = ours.step(ids[:, place], state)
        torch.testing.assert_close(step[real[:, place]], expected[:, place][real[:, place]], rtol=0, atol=1e-5)


def test_the_published_settings_are_understood() -> None:
    """The config.json that DeepSeek published gives the preset, with its YaRN scaling."""
    from regard.config import PRESETS, VOCABULARIES, DeepSeekConfig, FamilyConfig, convert
    from regard.interop.huggingface.deepseek import deepseek_config
    from regard.interop.huggingface.folder import HuggingFaceConfig

    published = {
        "attention_bias": False, "first_k_dense_replace": 3, "hidden_act": "silu", "hidden_size": 7168,
        "intermediate_size": 18432, "kv_lora_rank": 512, "moe_intermediate_size": 2048, "moe_layer_freq": 1,
        "n_group": 8, "n_routed_experts": 256, "n_shared_experts": 1, "norm_topk_prob": True,
        "num_attention_heads": 128, "num_experts_per_tok": 8, "num_hidden_layers": 61, "num_key_value_heads": 128,
        "q_lora_rank": 1536, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "rms_norm_eps": 1e-06,
        "rope_scaling": {
            "beta_fast": 32, "beta_slow": 1, "factor": 40, "mscale": 1.0, "mscale_all_dim": 1.0,
            "original_max_position_embeddings": 4096, "type": "yarn",
        },
        "rope_theta": 10000, "routed_scaling_factor": 2.5, "scoring_func": "sigmoid", "tie_word_embeddings": False,
        "topk_group": 4, "topk_method": "noaux_tc", "v_head_dim": 128, "vocab_size": 129280,
    }  # fmt: skip
    preset = convert(FamilyConfig, PRESETS["deepseek-v3"], "model").with_vocabulary(VOCABULARIES["deepseek-v3"])
    assert isinstance(preset, DeepSeekConfig)
    assert deepseek_config(HuggingFaceConfig(published, Path("config.json"))) == preset


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"quantization_config": {"quant_method": "fp8"}}, "quantised weights"),
        ({"hidden_act": "gelu"}, "hidden_act = 'gelu'"),
        ({"scoring_func": "softmax"}, "scoring_func = 'softmax'"),
        ({"rope_parameters": {"rope_type": "linear", "factor": 2.0}}, "rope_type = 'linear' is not supported"),
        ({"rope_parameters": {**YARN, "mscale": 0.7}}, "mscale = 0.7"),
        ({"num_key_value_heads": 1}, "num_key_value_heads = 1"),
        ({"hidden_size": 18}, "has the shape"),
        ({"num_hidden_layers": 2}, "tensors that Regard has no use for"),
    ],
)
def test_what_regard_does_not_have_is_refused(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    save(tmp_path / "hf")
    path = tmp_path / "hf" / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    with pytest.raises(ModelFolderError, match=words):
        import_folder(tmp_path / "hf", tmp_path / "ours")
    assert not (tmp_path / "ours").exists()


def test_the_multi_token_prediction_module_is_ignored(tmp_path: Path) -> None:
    from safetensors.numpy import load_file, save_file

    save(tmp_path / "hf")
    file = tmp_path / "hf" / "model.safetensors"
    more = {"model.layers.3.eh_proj.weight": np.zeros((16, 32), np.float32)}
    save_file({**load_file(file), **more}, file)
    import_folder(tmp_path / "hf", tmp_path / "ours")
    assert load(tmp_path / "ours").config.n_layers == 3
