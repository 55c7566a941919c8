"""`regard config`: the resolved run, and whether a recipe is right."""

from __future__ import annotations

import dataclasses
import gzip
import struct
from pathlib import Path
from typing import Any

import pytest

from regard.config.recipe import load_recipe
from regard.model_folder.atomic import atomic_folder
from regard.model_folder.folder import read_description, read_weights, write_model
from regard.tokenizers.characters import CharacterTokenizer

GOOD = """
[[data.train]]
src = "a.en"
tgt = "a.de"

[model]
preset = "tiny"
"""

GIVEN = {"transformer": 'src = "a.en"\ntgt = "a.de"\n', "gpt": 'text = "a.en"\n', "t5": 'text = "a.en"\n'}


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    (tmp_path / "r.toml").write_text(GOOD)
    return tmp_path / "r.toml"


@pytest.fixture
def data(recipe: Path) -> Path:
    (recipe.parent / "a.en").write_text("hello\n")
    (recipe.parent / "a.de").write_text("hallo\n")
    return recipe.parent


def test_show_gives_the_same_run_again(regard: Any, recipe: Path, tmp_path: Path) -> None:
    overrides = ["--set", "train.lr=3e-4", "--set", 'data.src_lang="en"']
    said = regard("config", "show", recipe, *overrides)
    assert said.code == 0
    assert "d_model = 128\n" in said.out
    assert "lr = 0.0003\n" in said.out
    (tmp_path / "again.toml").write_text(said.out)
    assert load_recipe(tmp_path / "again.toml") == load_recipe(recipe, overrides[1::2])


def test_show_does_not_need_the_data(regard: Any, recipe: Path) -> None:
    assert regard("config", "show", recipe).code == 0


def test_check(regard: Any, recipe: Path, data: Path) -> None:
    said = regard("config", "check", recipe)
    assert (said.code, said.err) == (0, "")
    assert said.out.endswith(f"a.en + a.de: 1 pairs\n{recipe}: OK\n")


def test_check_without_data(regard: Any, recipe: Path) -> None:
    said = regard("config", "check", recipe)
    assert said.code == 3
    assert f"there is no file {recipe.parent / 'a.en'}" in said.err
    assert regard("config", "check", recipe, "--no-data") == (0, f"{recipe}: OK\n", "")


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("train.lrr=1", "unknown key train.lrr; did you mean 'lr'?"),
        ("model.norm_order=middle", "it may be one of 'post', 'pre'"),
        ("model.n_heads=3", "does not divide"),
        ("train", "not of the form key=value"),
        ("data.train=[]", "there is no training corpus"),
        ('data.tokenizer.files=["no.model"]', "no.model cannot be read"),
    ],
)
def test_check_says_what_is_wrong(regard: Any, recipe: Path, data: Path, override: str, words: str) -> None:
    said = regard("config", "check", recipe, "--set", override)
    assert (said.code, said.out) == (2, "")
    assert words in said.err


LABELS = """
[model]
family = "bert"
heads = ["classes"]
[[data.train]]
file = "train.tsv"
[[data.valid]]
file = "valid.tsv"
"""


@pytest.mark.parametrize(
    ("train", "valid", "override", "code", "words"),
    [
        ("a\tyes\nb\tno\n", "c\tno\n", "train.seed=1", 0, "valid.tsv: 1 pairs"),
        ("a\tyes\nb\tyes\n", "c\tyes\n", "train.seed=1", 3, "every training text has the label 'yes'"),
        ("a\tyes\nb\tno\n", "c\tperhaps\n", "train.seed=1", 3, "the label 'perhaps' is not one of the known"),
        ("a\tyes\nb\tno\n", "c\tno\n", 'model.heads=["tags"]', 2, "has no head that Regard trains"),
        ("a\tyes\nb\tno\n", "c\tno\n", 'train.init_from="nowhere"', 4, "there is no model folder at"),
    ],
)
def test_labels_are_checked_as_training_does(
    regard: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    train: str,
    valid: str,
    override: str,
    code: int,
    words: str,
) -> None:
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    for name, content in (("r.toml", LABELS), ("train.tsv", train), ("valid.tsv", valid)):
        (tmp_path / name).write_text(content)
    said = regard("config", "check", tmp_path / "r.toml", "--set", override)
    assert said.code == code
    assert words in said.out + said.err
    assert (": OK" in said.out) == (code == 0)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["r.toml", "train.tsv", "valid.tsv"], (
        "nothing is written"
    )


@pytest.mark.parametrize("family", GIVEN)
def test_every_kind_of_data(regard: Any, data: Path, family: str) -> None:
    (data / "r.toml").write_text(f'[[data.train]]\n{GIVEN[family]}[model]\nfamily = "{family}"\n')
    assert regard("config", "check", data / "r.toml").code == 0


@pytest.mark.parametrize("family", ["transformer", "gpt"])
def test_the_model_to_start_from(regard: Any, make_model: Any, data: Path, family: str) -> None:
    """Its tokenizer must be one that the model can have."""
    (data / "r.toml").write_text(f'[[data.train]]\n{GIVEN[family]}[model]\nfamily = "{family}"\n')
    begun = make_model(data / "begun")
    init = ("--set", f'train.init_from="{begun}"')
    assert regard("config", "check", data / "r.toml", *init).code == 0
    with atomic_folder(data / "characters") as folder:
        files = CharacterTokenizer.of(["hello"]).files()
        write_model(folder, dataclasses.replace(read_description(begun), tokenizer=files), read_weights(begun), "")
    said = regard("config", "check", data / "r.toml", "--set", f'train.init_from="{data / "characters"}"')
    assert (said.code, "there is no source.model" in said.err) == ((2, True) if family == "transformer" else (0, False))


def test_the_recipes_that_need_no_data_are_good(regard: Any) -> None:
    recipe = Path(__file__).parents[2] / "recipes" / "reverse.toml"
    assert regard("config", "check", recipe).code == 0


@pytest.mark.parametrize("recipe", sorted((Path(__file__).parents[2] / "recipes").glob("*.toml")), ids=lambda r: r.stem)
def test_every_recipe_can_be_read(regard: Any, recipe: Path) -> None:
    assert regard("config", "check", recipe, "--no-data") == (0, f"{recipe}: OK\n", "")


def test_files_of_different_length_are_not_good(regard: Any, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one\ntwo\n")
    (tmp_path / "b").write_text("eins\n")
    (tmp_path / "r.toml").write_text('[[data.train]]\nsrc = "a"\ntgt = "b"\n')
    said = regard("config", "check", tmp_path / "r.toml")
    assert said.code == 3
    assert "has 2 lines but" in said.err


def test_images_are_checked(regard: Any, tmp_path: Path) -> None:
    for name, values, shape in (("images", bytes(2 * 4 * 4), (2, 4, 4)), ("classes", bytes([0, 1]), (2,))):
        head = b"\0\0\x08" + bytes([len(shape)]) + struct.pack(f">{len(shape)}I", *shape)
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(head + values))
    corpora = "".join(
        f'[[data.{split}]]\nimages = "images.gz"\nlabels = "classes.gz"\n' for split in ("train", "valid")
    )
    recipe = tmp_path / "r.toml"
    recipe.write_text(f'{corpora}[model]\nfamily = "vit"\nimage_size = 4\npatch_size = 2\nchannels = 1\n', "utf-8")
    said = regard("config", "check", recipe)
    assert (said.code, said.out, said.err) == (0, f"{recipe}: OK\n", "")
    (tmp_path / "classes.gz").unlink()
    said = regard("config", "check", recipe)
    assert (said.code, said.out) == (3, "")
    assert str(tmp_path / "classes.gz") in said.err
