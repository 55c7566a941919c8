"""The models that are installed."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from regard import Translator
from regard.errors import ConfigError, ModelFolderError
from regard.model_folder import registry
from regard.model_folder.model_card import CardHead
from regard.model_folder.registry import find_folder, installed_models, models_for, new_folder


@pytest.mark.usefixtures("nothing_installed")
def test_none() -> None:
    assert installed_models() == []
    with pytest.raises(ConfigError, match="no model is installed for zh → en: give a model folder with --model"):
        models_for("zh", "en")


def test_the_user_s_own(babble: Path) -> None:
    first, second = installed_models()
    assert (first.name, first.src_lang, first.tgt_lang, first.bundled) == ("en-zh", "en", "zh", False)
    assert (second.name, second.folder) == ("zh-en", babble / "zh-en")
    assert second.head == CardHead("CC0", {"bleu": 0.1})
    assert second.size == sum(path.stat().st_size for path in second.folder.iterdir())


def test_the_user_s_come_before_the_bundled(babble: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(babble / "zh-en", tmp_path / "bundled" / "zh-en")
    monkeypatch.setattr(registry, "BUNDLED", tmp_path / "bundled")
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
    assert "config.json is not JSON" in broken.problem
    with pytest.raises(ConfigError, match="no model is installed"):
        models_for(None, None)


def truncate_weights(folder: Path) -> None:
    path = folder / "weights.safetensors"
    path.write_bytes(path.read_bytes()[:-1])


def come_from_the_future(folder: Path) -> None:
    content = json.loads((folder / "config.json").read_text("utf-8"))
    (folder / "config.json").write_text(json.dumps(content | {"format_version": 99}), "utf-8")


DAMAGES: list[tuple[Callable[[Path], None], str]] = [
    (truncate_weights, "weights.safetensors is damaged: its length is not the one in its header"),
    (come_from_the_future, "is of format 99"),
    (lambda folder: (folder / "tokenizer.model").unlink(), "is incomplete: tokenizer.model is missing"),
    (lambda folder: (folder / "config.json").unlink(), "is incomplete: config.json is missing"),
    (lambda folder: (folder / "SHA256SUMS").unlink(), "is not a model folder: it has no SHA256SUMS"),
    (lambda folder: (folder / "SHA256SUMS").write_text("x"), "SHA256SUMS is damaged"),
]


@pytest.mark.parametrize(("damage", "words"), DAMAGES, ids=[words for _, words in DAMAGES])
def test_damage_found_without_checksums(
    babble: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: Callable[[Path], None], words: str
) -> None:
    shutil.copytree(babble / "zh-en", tmp_path / "bundled" / "zh-en")
    shutil.copytree(babble / "zh-en", tmp_path / "own" / "mine")
    monkeypatch.setattr(registry, "BUNDLED", tmp_path / "bundled")
    monkeypatch.setenv("REGARD_MODELS", str(tmp_path / "own"))
    assert [model.name for model in models_for("zh", "en")] == ["mine", "zh-en"]
    damage(tmp_path / "own" / "mine")
    assert [(model.name, bool(model.problem)) for model in installed_models()] == [("mine", True), ("zh-en", False)]
    assert words in installed_models()[0].problem
    assert [model.name for model in models_for("zh", "en")] == ["zh-en"]
    with pytest.raises(ModelFolderError, match=re.escape(str(tmp_path / "own" / "mine"))):
        Translator("mine")
    with pytest.raises(ConfigError, match=f"no model is installed for de.*; mine cannot be used: .*{re.escape(words)}"):
        models_for("de", None)


def put_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def put_link(path: Path, target: str) -> None:
    path.unlink()
    path.symlink_to(target)


ODDITIES: dict[str, tuple[Callable[[Path], object], str]] = {
    "a fifo for settings": (
        lambda folder: put_fifo(folder / "config.json"),
        "config.json cannot be read: it is a FIFO",
    ),
    "a loop of links": (lambda folder: put_link(folder / "config.json", "config.json"), "Too many levels of symbolic"),
    "a link out": (lambda folder: put_link(folder / "SHA256SUMS", "/etc/hostname"), "is a link out of the folder"),
    "a device": (lambda folder: put_link(folder / "README.md", "/dev/zero"), "README.md is a link out of the folder"),
    "nested": (lambda folder: (folder / "config.json").write_text("[" * 100_000), "config.json is nested too deeply"),
    "markup": (lambda folder: (folder / "config.json").write_text('{"[/red]": 1}'), "it has no format_version"),
    "no text": (lambda folder: (folder / "SHA256SUMS").write_bytes(b"\xff" * 99), "SHA256SUMS is damaged"),
    "deep": (lambda folder: say_in_config(folder, n_encoder_layers=10**7), "asks for 10,000,001 layers"),
    "wide": (lambda folder: say_in_config(folder, d_model=10**12, n_heads=1), "model.d_model = 1,000,000,000,000, but"),
}


def test_bad_folders_of_every_kind_do_not_hide_a_good_one(
    babble: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "own"
    shutil.copytree(babble / "zh-en", own / "good")
    for name, (damage, _) in ODDITIES.items():
        shutil.copytree(babble / "zh-en", own / name)
        damage(own / name)
    os.mkfifo(own / "fifo")
    (own / "loop").symlink_to("loop")
    (own / "nowhere").symlink_to("no such folder")
    (own / "notes").write_text("mine")
    monkeypatch.setenv("REGARD_MODELS", str(own))
    problems = {model.name: model.problem for model in installed_models()}
    for name, (_, words) in ODDITIES.items():
        assert words in problems.pop(name)
    assert "it is a FIFO" in problems.pop("fifo")
    assert "Too many levels" in problems.pop("loop")
    assert "there is no model folder at" in problems.pop("nowhere")
    assert "it is a file" in problems.pop("notes")
    assert problems == {"good": ""}
    assert [model.name for model in models_for("zh", "en")] == ["good"]


def test_a_card_cannot_write_to_the_terminal(babble: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(babble / "zh-en", tmp_path / "own" / "mine")
    (tmp_path / "own" / "mine" / "README.md").write_text("---\nlicence: \x1b[2J\nbleu: nan\nchrf: inf\nter: 5\n---\n")
    monkeypatch.setenv("REGARD_MODELS", str(tmp_path / "own"))
    assert installed_models()[0].head == CardHead("", {"ter": 5.0})


def test_unfinished_folders_are_not_listed(babble: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(babble / "zh-en", tmp_path / ".tmp-zh-en-1")
    (tmp_path / ".tmp-zh-en-1" / "SHA256SUMS").unlink()
    monkeypatch.setenv("REGARD_MODELS", str(tmp_path))
    assert installed_models() == []


def test_the_variable_may_name_a_model_itself(babble: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_MODELS", str(babble / "zh-en"))
    assert [(model.name, model.folder) for model in models_for("zh", "en")] == [("zh-en", babble / "zh-en")]
    monkeypatch.chdir(babble / "zh-en")
    monkeypatch.setenv("REGARD_MODELS", ".")
    assert [model.name for model in models_for("zh", "en")] == ["zh-en"]


def say_in_config(folder: Path, **model: Any) -> None:
    """Change what a folder says of its model; None takes a setting out."""
    content = json.loads((folder / "config.json").read_text("utf-8"))
    put_in_config(folder, {name: value for name, value in (content["model"] | model).items() if value is not None})


def put_in_config(folder: Path, model: dict[str, Any]) -> None:
    content = json.loads((folder / "config.json").read_text("utf-8"))
    (folder / "config.json").write_text(json.dumps(content | {"model": model}), "utf-8")


@pytest.mark.parametrize("family", ["gpt", "deepseek", "bert", "vit"])
def test_one_that_does_not_translate_is_listed_and_not_chosen(
    babble: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, family: str
) -> None:
    own = tmp_path / "own"
    shutil.copytree(babble / "en-zh", own / "a first")
    put_in_config(own / "a first", {"family": family})
    monkeypatch.setenv("REGARD_MODELS", str(own))
    assert [model.family for model in installed_models()] == [family]
    with pytest.raises(ConfigError, match="no model is installed for en → any language: give"):
        models_for("en", None)
    shutil.copytree(babble / "en-zh", own / "second")
    assert [model.name for model in models_for("en", None)] == ["second"]
    assert Translator().translate(["I love you."])[0].tgt_lang == "zh"
    assert find_folder("a first") == own / "a first"


def test_the_first_folders_name_no_family(babble: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(babble / "zh-en", tmp_path / "own" / "old")
    say_in_config(tmp_path / "own" / "old", family=None)
    monkeypatch.setenv("REGARD_MODELS", str(tmp_path / "own"))
    assert [(model.name, model.family) for model in models_for("zh", "en")] == [("old", "transformer")]
    (tmp_path / "own" / "old" / "config.json").write_text(
        '{"format_version": 1, "src_lang": "zh", "tgt_lang": "en", "lowercase": false, "decode": {}, "model": []}'
    )
    assert "config.json does not describe a model: " in installed_models()[0].problem


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


def test_names_that_no_folder_of_models_can_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, babble: Path) -> None:
    for name in ("", "a/b", "..", ".hidden", "/a"):
        with pytest.raises(ConfigError, match=f"^{re.escape(repr(name))} cannot be the name of a model"):
            new_folder(name)
    monkeypatch.setenv("REGARD_MODELS", str(babble / "zh-en"))
    with pytest.raises(ConfigError, match="zh-en is a single model: set it to a folder of models"):
        new_folder("other")
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("REGARD_MODELS", str(tmp_path / "file"))
    with pytest.raises(ConfigError, match="it is a file; set REGARD_MODELS to a folder of models"):
        installed_models()
