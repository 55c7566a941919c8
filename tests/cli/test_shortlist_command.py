"""`regard shortlist`, and `regard translate --shortlist`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from regard.decode.shortlist import load_shortlist
from regard.model_folder.folder import CONFIG, SHORTLIST, check_sums, digest, listed_sums, write_sums
from regard.tokenizers.sentencepiece import SentencePieceModel

PAIRS = [("the cat sat", "a dog runs"), ("the dog sat", "two dogs run"), ("a mat", "on the mat")] * 3


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, new_cache: Any) -> Path:
    monkeypatch.setenv("REGARD_CACHE", str(new_cache(tmp_path / "cache")))
    lines = [f"{src}\t{tgt}\n" for src, tgt in PAIRS]
    (tmp_path / "pairs.tsv").write_text("".join(lines), "utf-8")
    path = tmp_path / "recipe.toml"
    languages = '[data]\nsrc_lang = "en"\ntgt_lang = "de"\n'
    path.write_text(f'{languages}[[data.train]]\nfile = "pairs.tsv"\n[train]\nmax_steps = 1\n', "utf-8")
    return path


def test_a_model_gets_one_and_uses_it(
    regard: Any, make_model: Any, recipe: Path, tmp_path: Path, vocabulary: SentencePieceModel
) -> None:
    model = make_model(tmp_path / "model")
    before = {path.name: path.read_bytes() for path in model.iterdir()}
    assert regard("translate", "the cat", "--model", model, "--shortlist").err.startswith(
        f"regard: {model} has no shortlist; make one with: regard shortlist {model}"
    )
    said = regard("shortlist", model, "--recipe", recipe, "--translations", 4, "--frequent", 5)
    assert said.code == 0, said.err
    assert "learnt from 9 pairs" in said.out
    check_sums(model)
    assert {path.name for path in model.iterdir()} == {*before, SHORTLIST}
    found = load_shortlist(model, vocabulary.size)
    [source] = vocabulary.encode(["the cat sat"])
    [target] = vocabulary.encode(["a dog runs"])
    assert {*target, *source} <= set(found.allowed([source]).tolist())
    said = regard("translate", "the cat sat", "--model", model, "--shortlist")
    assert (said.code, said.err) == (0, "")
    assert regard("average", model, "-o", tmp_path / "again").code == 0  # which keeps it
    assert load_shortlist(tmp_path / "again", vocabulary.size).always.tolist() == found.always.tolist()
    sides = {"src": "the cat sat\n", "ref": "a b c\n"}
    for side, text in sides.items():
        (tmp_path / side).write_text(text, "utf-8")
    said = regard(
        "evaluate", "--model", model, "--shortlist", *(x for side in sides for x in (f"--{side}", tmp_path / side))
    )
    assert (said.code, "BLEU" in said.out) == (0, True)
    assert regard("shortlist", model, "--recipe", recipe).code == 0  # and again, with other figures
    assert len(load_shortlist(model, vocabulary.size).always) >= len(found.always)
    check_sums(model)


def test_pairs_of_other_languages(regard: Any, make_model: Any, recipe: Path, tmp_path: Path) -> None:
    recipe.write_text(recipe.read_text("utf-8").replace('"de"', '"fr"'), "utf-8")
    said = regard("shortlist", make_model(tmp_path / "model"), "--recipe", recipe)
    assert said.code == 2
    assert "translates from en to de, but the pairs of" in said.err
    assert "from en to fr" in said.err


def test_a_model_that_does_not_translate(regard: Any, make_model: Any, recipe: Path, tmp_path: Path) -> None:
    model = make_model(tmp_path / "model")
    content = json.loads((model / CONFIG).read_text("utf-8"))
    content["model"] = {"family": "gpt", "d_model": 16, "n_heads": 2, "d_ff": 32, "n_layers": 1}
    (model / CONFIG).write_text(json.dumps(content), "utf-8")
    write_sums(model, {**listed_sums(model), CONFIG: digest(model / CONFIG)})
    said = regard("shortlist", model, "--recipe", recipe)
    assert said.code == 2
    assert "is not a translation model" in said.err


def test_a_recipe_is_needed(regard: Any, make_model: Any, tmp_path: Path) -> None:
    said = regard("shortlist", make_model(tmp_path / "model"))
    assert said.code == 2
    assert "--recipe" in said.err


def test_a_folder_that_cannot_be_written_to(regard: Any, make_model: Any, recipe: Path, tmp_path: Path) -> None:
    model = make_model(tmp_path / "model")
    (model / SHORTLIST).mkdir()
    said = regard("shortlist", model, "--recipe", recipe, "--translations", 4, "--frequent", 5)
    assert (said.code, said.out) == (2, "")
    assert f"regard: {model} cannot be written to: Is a directory" in said.err
    check_sums(model)
