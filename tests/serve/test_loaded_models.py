"""The models of a server: what is loaded, and what is left out."""

from __future__ import annotations

import shutil
from pathlib import Path

from regard.serve.loaded_models import LoadedModels


def test_a_model_is_loaded_once(deep_model: Path, tmp_path: Path) -> None:
    linked = tmp_path / "linked"
    linked.symlink_to(deep_model)
    models = LoadedModels([deep_model, linked])
    models.add_complete([deep_model])
    assert [model.name for model in models.all()] == ["deep"]


def test_models_of_one_name_are_told_apart(deep_model: Path, tmp_path: Path) -> None:
    models = LoadedModels([deep_model, shutil.copytree(deep_model, tmp_path / "deep")])
    names = [model.name for model in models.all()]
    assert names[0] == "deep"
    assert len(set(names)) == 2


def test_a_damaged_model_keeps_no_other_out(deep_model: Path, tmp_path: Path) -> None:
    damaged = shutil.copytree(deep_model, tmp_path / "damaged")
    (damaged / "config.json").write_text("{", "utf-8")
    unfinished = shutil.copytree(deep_model, tmp_path / "unfinished")
    (unfinished / "SHA256SUMS").unlink()
    models = LoadedModels([])
    models.add_complete([damaged, unfinished, deep_model])
    assert [(model.id, model.name) for model in models.all()] == [("0", "deep")]
