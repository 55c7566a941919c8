"""Which models the page can compute."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from regard.config import DecodeConfig
from regard.errors import ConfigError
from regard.inspect.explorer import Explorer
from regard.inspect.packed_model import pack_model, refusal
from regard.model_folder.atomic import atomic_folder
from regard.model_folder.folder import read_description, read_weights, write_model
from regard.pipelines.model_translator import ModelTranslator


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"decode": DecodeConfig(beam_rule="huggingface")}, "decode.beam_rule = 'huggingface'; it supports 'paper'"),
        ({"tasks": ("translate: ",)}, "does not support models with tasks"),
    ],
)
def test_what_it_cannot(reverse_model: Path, tmp_path: Path, changes: dict[str, Any], reason: str) -> None:
    description = dataclasses.replace(read_description(reverse_model), **changes)
    with atomic_folder(tmp_path / "model") as folder:
        write_model(folder, description, read_weights(reverse_model), "")
    translator = ModelTranslator(tmp_path / "model")
    found = refusal(translator)
    assert found is not None
    assert reason in found
    explorer = Explorer(translator)
    with pytest.raises(ConfigError) as refused:
        pack_model(explorer, explorer.describe("0"))
    assert str(refused.value) == found


def test_what_it_can(reverse: ModelTranslator) -> None:
    assert refusal(reverse) is None
