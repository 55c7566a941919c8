"""The models that are installed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from regard import shelf
from regard.card import CardHead
from regard.errors import ConfigError
from regard.shelf import find_folder, installed_models, models_for


@pytest.mark.usefixtures("nothing_installed")
def test_none() -> None:
    assert installed_models() == []
    with pytest.raises(ConfigError, match="no model is installed for zh → en: name a model folder with --model"):
        models_for("zh", "en")


def test_the_user_s_own(babble: Path) -> None:
    first, second = installed_models()
    assert (first.name, first.src_lang, first.tgt_lang, first.bundled) == ("en-zh", "en", "zh", False)
    assert (second.name, second.folder) == ("zh-en", babble / "zh-en")
    assert second.head == CardHead("CC0", {"bleu": 0.1})
    assert second.size == sum(path.stat().st_size for path in second.folder.iterdir())


def test_the_user_s_come_before_the_bundled(babble: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(babble / "zh-en", tmp_path / "bundled" / "zh-en")
    monkeypatch.setattr(shelf, "BUNDLED", tmp_path / "bundled")
    assert [(model.name, model.bundled) for model in installed_models()] == [
        ("en-zh", False),
        ("zh-en", False),
        ("zh-en", True),
    ]
    assert models_for("zh", "en")[0].folder == babble / "zh-en"
    monkeypatch.delenv("REGARD_MODELS")
    assert models_for("zh-Hans", None)[0].folder == tmp_path / "bundled" / "zh-en"
    with pytest.raises(ConfigError, match=r"for en → zh \(there is zh → en\)"):
        models_for("en", "zh")


def test_a_damaged_one_is_listed_and_not_chosen(babble: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(babble / "zh-en", tmp_path / "own" / "broken")
    (tmp_path / "own" / "broken" / "config.json").write_text("{")
    (tmp_path / "own" / "not a model").mkdir()
    monkeypatch.setenv("REGARD_MODELS", str(tmp_path / "own"))
    [broken] = installed_models()
    assert "config.json cannot be read" in broken.problem
    with pytest.raises(ConfigError, match="no model is installed"):
        models_for(None, None)


@pytest.mark.usefixtures("nothing_installed")
def test_a_folder_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_MODELS", str(tmp_path / "nowhere"))
    with pytest.raises(ConfigError, match="nowhere: there is no such folder"):
        installed_models()


def test_by_name(babble: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_folder("zh-en") == babble / "zh-en"
    assert find_folder("nothing") == Path("nothing")
    assert find_folder("runs/zh-en") == Path("runs/zh-en")
    (tmp_path / "zh-en").mkdir()
    assert find_folder("zh-en") == Path("zh-en")  # what is there goes before what is installed
