"""`regard config`: the resolved run, and whether a recipe is right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from regard.recipe import load_recipe

GOOD = """
[[data.train]]
src = "a.en"
tgt = "a.de"

[model]
preset = "tiny"
"""


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
    assert said.out.endswith(f"a.en + a.de: 1 pairs\n{recipe} is good\n")


def test_check_without_data(regard: Any, recipe: Path) -> None:
    said = regard("config", "check", recipe)
    assert said.code == 3
    assert f"there is no file {recipe.parent / 'a.en'}" in said.err
    assert regard("config", "check", recipe, "--no-data") == (0, f"{recipe} is good\n", "")


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


def test_the_recipes_that_need_no_data_are_good(regard: Any) -> None:
    recipe = Path(__file__).parents[2] / "recipes" / "reverse.toml"
    assert regard("config", "check", recipe).code == 0


@pytest.mark.parametrize("recipe", sorted((Path(__file__).parents[2] / "recipes").glob("*.toml")), ids=lambda r: r.stem)
def test_every_recipe_can_be_read(regard: Any, recipe: Path) -> None:
    assert regard("config", "check", recipe, "--no-data") == (0, f"{recipe} is good\n", "")


def test_files_of_different_length_are_not_good(regard: Any, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one\ntwo\n")
    (tmp_path / "b").write_text("eins\n")
    (tmp_path / "r.toml").write_text('[[data.train]]\nsrc = "a"\ntgt = "b"\n')
    said = regard("config", "check", tmp_path / "r.toml")
    assert said.code == 3
    assert "has 2 lines but" in said.err
