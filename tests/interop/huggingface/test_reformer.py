"""An imported Reformer of `transformers`: where both compute full attention, the same logits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from regard.config import LshAttentionConfig
from regard.core.attention.lsh import LshAttention
from regard.errors import ModelFolderError
from regard.interop.huggingface.imports import import_folder
from regard.model_folder.folder import read_description
from regard.models.gpt import Gpt
from regard.models.load import read_model

SIZES: dict[str, Any] = {
    "vocab_size": 23, "hidden_size": 16, "num_attention_heads": 2, "attention_head_size": 8, "feed_forward_size": 20,
    "attn_layers": ["lsh", "lsh"], "is_decoder": True, "lsh_attn_chunk_length": 12, "num_hashes": 2,
    "num_buckets": [2, 4], "axial_pos_shape": [6, 8], "axial_pos_embds_dim": [6, 10], "max_position_embeddings": 48,
    "hash_seed": 1,
}  # fmt: skip
POSITIONS = "reformer.embeddings.position_embeddings.weights"


def save(path: Path, **changes: Any) -> Any:
    torch.manual_seed(1)
    model = transformers.ReformerModelWithLMHead(transformers.ReformerConfig(**{**SIZES, **changes})).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    model.save_pretrained(path)
    return model


def load(tmp_path: Path, **changes: Any) -> tuple[Any, Gpt]:
    theirs = save(tmp_path / "hf", **changes)
    import_folder(tmp_path / "hf", tmp_path / "ours")
    return theirs, read_model(tmp_path / "ours", read_description(tmp_path / "ours").model, Gpt, "read")


def with_one_bucket(model: Gpt) -> Gpt:
    for module in model.modules():
        if isinstance(module, LshAttention):
            module.n_buckets, module.chunk = 1, 64
    return model


@pytest.mark.parametrize(
    ("length", "changes"),
    [(9, {}), (12, {"axial_pos_embds": False, "hidden_act": "gelu"}), (24, {"num_hashes": 1})],
)
def test_logits(tmp_path: Path, length: int, changes: dict[str, Any]) -> None:
    """Up to one of their chunks they compute in full; of one round, two chunks see each other."""
    theirs, ours = load(tmp_path, **changes)
    ids = torch.randint(23, (2, length), generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        expected = theirs(ids).logits
        assert expected.std() > 0.1
        torch.testing.assert_close(with_one_bucket(ours)(ids), expected, rtol=0, atol=1e-4)


def test_settings(tmp_path: Path) -> None:
    _, ours = load(tmp_path)
    assert ours.config.attention == LshAttentionConfig(n_buckets=8, chunk=12, n_rounds=2)
    assert ours.config.residual == "reversible"
    assert ours.config.max_positions == 48
    ids = torch.randint(23, (2, 40))
    assert ours(ids).isfinite().all()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"attn_layers": ["local", "lsh"]}, "Regard supports 'lsh' in every layer only"),
        ({"is_decoder": False}, "is_decoder = False is not supported"),
        ({"attention_head_size": 4}, "attention_head_size = 4 is not supported"),
        ({"num_buckets": 0}, "num_buckets must be whole numbers"),
        ({"axial_pos_shape": [48]}, "axial_pos_shape must be two whole numbers"),
    ],
)
def test_what_does_not_map_is_refused(tmp_path: Path, changes: dict[str, Any], reason: str) -> None:
    save(tmp_path / "hf")
    path = tmp_path / "hf" / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text("utf-8")), **changes}), "utf-8")
    with pytest.raises(ModelFolderError, match=reason):
        import_folder(tmp_path / "hf", tmp_path / "ours")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"lm_head.decoder.weight": None}, "hf has no lm_head: Regard imports Reformer as a language model only"),
        ({f"{POSITIONS}.0": (1, 8)}, r"position_embeddings.weights are not two axes of together \d+"),
        ({f"{POSITIONS}.1": (2, 6, 3)}, r"position_embeddings.weights are not two axes of together \d+"),
    ],
)
def test_weights_of_another_shape_are_refused(
    tmp_path: Path, changes: dict[str, tuple[int, ...] | None], reason: str
) -> None:
    save(tmp_path / "hf")
    path = tmp_path / "hf" / "model.safetensors"
    tensors = load_file(path)
    for name, shape in changes.items():
        del tensors[name]
        if shape is not None:
            tensors[name] = torch.zeros(shape)
    save_file(tensors, path)
    with pytest.raises(ModelFolderError, match=reason):
        import_folder(tmp_path / "hf", tmp_path / "ours")
    assert not (tmp_path / "ours").exists()
