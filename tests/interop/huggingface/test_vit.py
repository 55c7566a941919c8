"""An imported Vision Transformer of `transformers`: the same logits, and the same preprocessing of images."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.config import ViTConfig
from regard.errors import ModelFolderError
from regard.interop.huggingface.imports import import_folder
from regard.model_folder.folder import read_description
from regard.models.load import read_model
from regard.models.vit import ViT

transformers = pytest.importorskip("transformers")

NAMES = ["cat", "dog", "bag", "boot"]
SIZES: dict[str, Any] = {
    "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 20, "image_size": 12,
    "patch_size": 4, "num_channels": 3, "id2label": dict(enumerate(NAMES)),
    "label2id": {name: number for number, name in enumerate(NAMES)},
}  # fmt: skip


def save(path: Path, kind: str = "ViTForImageClassification", **changes: Any) -> Any:
    torch.manual_seed(1)
    model = getattr(transformers, kind)(transformers.ViTConfig(**{**SIZES, **changes})).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    model.save_pretrained(path)
    return model


@pytest.mark.parametrize(
    "changes",
    [{}, {"qkv_bias": False}, {"num_channels": 1, "layer_norm_eps": 1e-6}, {"image_size": 8, "patch_size": 8}],
    ids=["plain", "no-bias", "grey", "one-patch"],
)
def test_the_same_logits(tmp_path: Path, changes: dict[str, Any]) -> None:
    theirs = save(tmp_path / "hf", **changes)
    import_folder(tmp_path / "hf", tmp_path / "ours")
    described = read_description(tmp_path / "ours")
    assert described.labels == tuple(NAMES)
    assert described.tokenizer == {}
    ours = read_model(tmp_path / "ours", described.model, ViT, "look at images")
    config = theirs.config
    shape = (3, config.num_channels, config.image_size, config.image_size)
    images = torch.randn(shape, generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        expected = theirs(images).logits
        torch.testing.assert_close(ours(images), expected, rtol=0, atol=1e-5)
        for number in range(3):
            torch.testing.assert_close(ours(images[number : number + 1])[0], expected[number], rtol=0, atol=1e-5)
    assert expected.std() > 0.1


def test_the_weights_of_attention_are_theirs(tmp_path: Path) -> None:
    from regard.core.taps import record

    theirs = save(tmp_path / "hf", attn_implementation="eager")
    import_folder(tmp_path / "hf", tmp_path / "ours")
    ours = read_model(tmp_path / "ours", read_description(tmp_path / "ours").model, ViT, "look at images")
    images = torch.randn(2, 3, 12, 12, generator=torch.Generator().manual_seed(3))
    with torch.no_grad(), record(ours, "layers.*.attention.weights") as seen:
        ours(images)
        expected = theirs(images, output_attentions=True).attentions
    for layer, weights in enumerate(expected):
        torch.testing.assert_close(seen[f"layers.{layer}.attention.weights"], weights, rtol=0, atol=1e-5)


def test_how_pixels_are_scaled(tmp_path: Path) -> None:
    save(tmp_path / "hf")
    said: list[str] = []
    described = import_folder(tmp_path / "hf", tmp_path / "a", said.append).description.model
    assert isinstance(described, ViTConfig)
    assert (described.mean, described.std) == ((0.5,), (0.5,))
    assert any("preprocessor_config.json" in line for line in said)
    scaling = {"image_mean": [0.4, 0.5, 0.6], "image_std": [0.2, 0.3, 0.4], "resample": 3}
    (tmp_path / "hf" / "preprocessor_config.json").write_text(json.dumps(scaling))
    said.clear()
    described = import_folder(tmp_path / "hf", tmp_path / "b", said.append).description.model
    assert isinstance(described, ViTConfig)
    assert (described.mean, described.std) == ((0.4, 0.5, 0.6), (0.2, 0.3, 0.4))
    assert any("bilinear" in line for line in said)
    (tmp_path / "hf" / "preprocessor_config.json").write_text(json.dumps({"do_normalize": False}))
    described = import_folder(tmp_path / "hf", tmp_path / "c").description.model
    assert isinstance(described, ViTConfig)
    assert (described.mean, described.std) == ((0.0,), (1.0,))


def test_classes_without_names_have_numbers(tmp_path: Path) -> None:
    save(tmp_path / "hf")
    path = tmp_path / "hf" / "config.json"
    content = json.loads(path.read_text())
    del content["id2label"]
    path.write_text(json.dumps(content))
    assert import_folder(tmp_path / "hf", tmp_path / "ours").description.labels == ("0", "1", "2", "3")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"hidden_act": "relu"}, "hidden_act = 'relu'"),
        ({"image_size": [12, 16]}, "square images"),
        ({"id2label": {"0": "cat"}}, "does not name the model's 4 classes"),
        ({"num_hidden_layers": 1}, "tensors that Regard has no use for"),
        ({"patch_size": 6}, "has the shape"),
    ],
)
def test_what_regard_does_not_have_is_refused(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    save(tmp_path / "hf")
    path = tmp_path / "hf" / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    with pytest.raises(ModelFolderError, match=words):
        import_folder(tmp_path / "hf", tmp_path / "ours")


def test_a_model_without_classes_is_refused(tmp_path: Path) -> None:
    save(tmp_path / "hf", "ViTModel")
    with pytest.raises(ModelFolderError, match="no classifier"):
        import_folder(tmp_path / "hf", tmp_path / "ours")
