"""The trial of a model folder at its import."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.config import BertConfig, DecodeConfig, DeepSeekConfig, FamilyConfig, GptConfig, ViTConfig
from regard.errors import ModelFolderError, RegardError
from regard.model_folder.atomic import atomic_folder
from regard.model_folder.folder import ModelDescription, read_description, read_weights, write_model
from regard.models.build import build_model
from regard.pipelines.model_translator import ModelTranslator
from regard.pipelines.trial import try_model
from regard.tokenizers.characters import CharacterTokenizer

TOKENIZER = CharacterTokenizer.of(["This is a trial, 1 of 2."])
SMALL = {"d_model": 8, "n_heads": 2, "d_ff": 8, "n_layers": 1}
FAMILIES: dict[str, FamilyConfig] = {
    "gpt": GptConfig(**SMALL, vocab_size=TOKENIZER.size),
    "bert": BertConfig(**SMALL, vocab_size=TOKENIZER.size),
    "vit": ViTConfig(**SMALL, image_size=4, patch_size=2, channels=1, n_labels=2),
    "deepseek": DeepSeekConfig(
        **SMALL, n_dense_layers=1, q_rank=4, kv_rank=4, head_size=4, rotary_size=2, value_size=4, vocab_size=12
    ),
}


def write(path: Path, family: str, number: float | None = None) -> Path:
    """A model folder of this family; all weights are `number` where one is given."""
    torch.manual_seed(1)
    model = build_model(FAMILIES[family]).requires_grad_(False)
    if number is not None:
        for parameter in model.parameters():
            parameter.fill_(number)
    weights = {name: parameter.numpy() for name, parameter in model.named_parameters()}
    files = TOKENIZER.files() if family in ("gpt", "bert") else {}
    labels = ("dark", "bright") if family == "vit" else ()
    with atomic_folder(path) as folder:
        description = ModelDescription(FAMILIES[family], DecodeConfig(), "", "", False, files, labels=labels)
        write_model(folder, description, weights, "")
    return path


def overflow(model: Any, vocabulary: object) -> None:
    """Weights that are finite, and a model that computes infinity with them."""
    for parameter in model.parameters():
        parameter.fill_(3e38)


def test_a_model_that_works(random_model: Any) -> None:
    try_model(random_model(dtype=torch.float32))


@pytest.mark.parametrize("family", ["transformer", "recurrent"])
def test_finite_weights_that_compute_nothing_finite(random_model: Any, family: str) -> None:
    settings = {} if family == "transformer" else {"family": family}
    folder: Path = random_model(dtype=torch.float32, change=overflow, **settings)
    with pytest.raises(RegardError, match=r"NaN|infinit"):
        try_model(folder)


@pytest.mark.parametrize("family", FAMILIES)
def test_each_family_does_what_it_is_for(tmp_path: Path, family: str) -> None:
    try_model(write(tmp_path / "model", family))
    folder = write(tmp_path / "corrupt", family, 1e15)
    with pytest.raises(ModelFolderError, match=r"NaN|infinit") as refused:
        try_model(folder)
    assert str(folder) in str(refused.value)


def test_a_model_with_tasks(random_model: Any, tmp_path: Path) -> None:
    """It translates only with one of them."""
    plain: Path = random_model(dtype=torch.float32)
    description = dataclasses.replace(read_description(plain), tasks=("apple", "baby"))
    with atomic_folder(tmp_path / "tasks") as folder:
        write_model(folder, description, read_weights(plain), "")
    try_model(tmp_path / "tasks")
    with pytest.raises(RegardError, match="task"):
        ModelTranslator(tmp_path / "tasks").translate(["cat"])


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(ModelFolderError):
        try_model(tmp_path / "nothing")
