"""`ImageClassifier`: classes, attention and traces."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from regard import ImageClassifier
from regard.config import DecodeConfig, TransformerConfig, ViTConfig
from regard.errors import ConfigError
from regard.model_folder.atomic import atomic_folder
from regard.model_folder.folder import ModelDescription, read_description, write_model
from regard.models.build import build_model
from regard.models.vit import ViT

LABELS = ("sky", "grass", "left", "right")
CONFIG = ViTConfig(image_size=8, patch_size=4, channels=1, d_model=8, n_heads=2, d_ff=8, n_layers=2, n_labels=4)


def write(path: Path, labels: tuple[str, ...] = LABELS) -> ViT:
    torch.manual_seed(1)
    model = ViT(CONFIG).requires_grad_(False)
    for parameter in model.parameters():
        parameter.add_(torch.randn_like(parameter) * 0.5)
    weights = {name: parameter.numpy() for name, parameter in model.named_parameters()}
    with atomic_folder(path) as folder:
        write_model(folder, ModelDescription(CONFIG, DecodeConfig(), "", "", False, {}, labels=labels), weights, "")
    return model.eval()


@pytest.fixture
def picture() -> np.ndarray:
    return np.random.default_rng(1).random((1, 8, 8)).astype(np.float32)


def test_probabilities_equal_those_of_the_model(tmp_path: Path, picture: np.ndarray) -> None:
    model = write(tmp_path / "m")
    view = ImageClassifier(tmp_path / "m")(picture)
    expected = model(torch.from_numpy((picture - 0.5) / 0.5)[None])[0].softmax(-1)
    found = dict(view.classification.labels)
    for number, label in enumerate(LABELS):
        assert found[label] == pytest.approx(expected[number].item(), abs=1e-6)
    assert [p for _, p in view.classification.labels] == sorted(found.values(), reverse=True)
    assert view.classification.label == LABELS[int(expected.argmax())]
    assert view.attention_YX.shape == (2, 2)
    assert view.attention_YX.sum() == pytest.approx(1)
    assert view.pixels_CYX is picture


def test_attention_is_computed_from_the_weights(tmp_path: Path, picture: np.ndarray) -> None:
    """The class token is made to attend to the lower left patch alone, in every layer."""
    write(tmp_path / "m")
    viewer = ImageClassifier(tmp_path / "m")

    def stare(path: str, weights: torch.Tensor) -> torch.Tensor:
        return torch.zeros_like(weights).index_fill(3, torch.tensor([3]), 1.0)

    from regard.core.taps import hook_taps

    with hook_taps(viewer.model, {"layers.*.attention.weights": stare}):
        attention = viewer(picture).attention_YX
    np.testing.assert_allclose(attention, [[0, 0], [1, 0]], atol=1e-6)


def test_many_images_in_order_and_from_files(tmp_path: Path) -> None:
    from PIL import Image

    write(tmp_path / "m")
    viewer = ImageClassifier(tmp_path / "m")
    names = []
    for number in range(3):
        drawn = np.random.default_rng(number).integers(0, 256, (8, 8), dtype=np.uint8)
        names.append(tmp_path / f"{number}.png")
        Image.fromarray(drawn).save(names[-1])
    together = viewer.classify(names)
    for name, view in zip(names, together, strict=True):
        alone = viewer(name)
        assert alone.classification.label == view.classification.label
        np.testing.assert_allclose(alone.attention_YX, view.attention_YX, atol=1e-6)
    assert viewer.classify([]) == []


def test_a_trace(tmp_path: Path, picture: np.ndarray) -> None:
    write(tmp_path / "m")
    trace = ImageClassifier(tmp_path / "m").trace(picture)
    assert trace["layers.0.attention.weights"].shape == (1, 2, 5, 5)
    assert trace["logits"].shape == (1, 4)


def test_the_folder_has_the_labels_and_needs_no_tokenizer(tmp_path: Path) -> None:
    write(tmp_path / "m")
    assert read_description(tmp_path / "m").labels == LABELS
    write(tmp_path / "n", ())
    assert '"labels"' not in (tmp_path / "n" / "config.json").read_text()
    assert ImageClassifier(tmp_path / "n").labels == ("0", "1", "2", "3")


def test_by_the_name_of_an_installed_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "own" / "looker")
    monkeypatch.setenv("REGARD_MODELS", str(tmp_path / "own"))
    monkeypatch.chdir(tmp_path)
    assert ImageClassifier("looker").folder == tmp_path / "own" / "looker"


def test_another_kind_of_model_is_refused(tmp_path: Path) -> None:
    config = TransformerConfig(d_model=4, n_heads=1, d_ff=4, src_vocab_size=5, tgt_vocab_size=5)
    description = ModelDescription(config, DecodeConfig(), "en", "de", False, {"tokenizer.model": b""})
    weights = {name: p.detach().numpy() for name, p in build_model(config).named_parameters()}
    with atomic_folder(tmp_path / "m") as folder:
        write_model(folder, description, weights, "")
    with pytest.raises(ConfigError, match="a transformer model does not classify images: it translates"):
        ImageClassifier(tmp_path / "m")


def test_a_translator_refuses_it(tmp_path: Path) -> None:
    from regard import Translator

    write(tmp_path / "m")
    with pytest.raises(ConfigError, match="a vit model does not translate: it classifies images, with regard classify"):
        Translator(tmp_path / "m")
    assert isinstance(build_model(CONFIG), ViT)
