"""`regard classify`: pictures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from regard.cli.classify import resized
from regard.config import DecodeConfig, ViTConfig
from regard.model_folder.atomic import atomic_folder
from regard.model_folder.folder import ModelDescription, write_model
from regard.models.vit import ViT

Image = pytest.importorskip("PIL.Image")
LABELS = ("靴", "bag", "coat")


@pytest.fixture
def vit(tmp_path: Path) -> Path:
    config = ViTConfig(image_size=28, patch_size=14, d_model=8, n_heads=2, d_ff=8, n_layers=1, n_labels=3)
    torch.manual_seed(1)
    model = ViT(config).requires_grad_(False)
    model.head.bias.copy_(torch.tensor([2.0, 1.0, 0.0]))  # the head's matrix is zero: so are all differences
    weights = {name: parameter.numpy() for name, parameter in model.named_parameters()}
    with atomic_folder(tmp_path / "vit") as folder:
        write_model(folder, ModelDescription(config, DecodeConfig(), "", "", False, {}, labels=LABELS), weights, "")
    return tmp_path / "vit"


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    pixels = np.zeros((28, 28), np.uint8)
    pixels[:, :14] = 255
    Image.fromarray(pixels).save(tmp_path / "half.png")
    return tmp_path / "half.png"


def test_it_says_the_class_and_draws(regard: Any, vit: Path, picture: Path) -> None:
    said = regard("classify", picture, "--model", vit, "--top", 2)
    assert (said.code, said.err) == (0, "")
    lines = said.out.splitlines()
    assert lines[0] == f"{picture}: 靴"
    assert lines[1].startswith("  靴    66.5%  ███")
    assert lines[2].startswith("  bag   24.5%  ███")
    assert "coat" not in said.out
    assert lines[4] == "  image                          attention"
    drawn = lines[5:19]
    assert all(line[2:16] == "█" * 14 for line in drawn), "the left half of the picture is white"
    assert all(line[16:30].strip() == "" for line in drawn)
    looked = {line[33:61].ljust(28) for line in drawn}
    assert len(looked) <= 2, "two rows of patches"
    assert any("█" in row for row in looked)
    assert "\x1b" not in said.out
    assert not any(line.endswith(" ") for line in lines)


def test_the_name_of_an_installed_model(
    regard: Any, vit: Path, picture: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REGARD_MODELS", str(vit.parent))
    monkeypatch.chdir(tmp_path.parent)
    assert regard("classify", picture, "--model", "vit") == regard("classify", picture, "--model", vit)


def test_it_has_no_tokenizer(regard: Any, vit: Path) -> None:
    said = regard("tokenize", "boot", "--model", vit)
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith(f"regard: {vit} is a vit model, which has no tokenizer; give another")


def test_json(regard: Any, vit: Path, picture: Path) -> None:
    said = regard("classify", picture, picture, "--model", vit, "--json")
    assert said.code == 0
    one, other = map(json.loads, said.out.splitlines())
    assert one == other
    assert one["label"] == "靴"
    assert [entry["label"] for entry in one["labels"]] == ["靴", "bag", "coat"]
    assert sum(entry["probability"] for entry in one["labels"]) == pytest.approx(1)
    assert np.shape(one["attention"]) == (2, 2)
    assert np.sum(one["attention"]) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["none.png"], 3, "there is no file none.png"),
        ([], 2, "no input"),
    ],
)
def test_what_is_wrong_is_said(regard: Any, vit: Path, words: list[str], code: int, said: str) -> None:
    found = regard("classify", *words, "--model", vit)
    assert (found.code, found.out) == (code, "")
    assert said in found.err


def test_a_model_that_translates_is_refused(regard: Any, make_model: Any, picture: Path, tmp_path: Path) -> None:
    found = regard("classify", picture, "--model", make_model(tmp_path / "m"))
    assert found.code == 2
    assert "it translates, with regard translate" in found.err


def test_an_image_has_half_as_many_rows_as_columns() -> None:
    values = np.arange(16.0).reshape(4, 4)
    assert resized(values, 4).tolist() == [[2, 3, 4, 5], [10, 11, 12, 13]]
    assert resized(np.array([[1.0, 2.0], [3.0, 4.0]]), 4).tolist() == [[1, 1, 2, 2], [3, 3, 4, 4]]
    assert resized(np.ones((1, 1)), 1).shape == (1, 1)
