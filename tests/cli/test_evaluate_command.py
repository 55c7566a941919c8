from __future__ import annotations

import gzip
import json
import math
from pathlib import Path
from typing import Any

import pytest
import sacrebleu
import torch

from regard import TextEncoder, __version__
from regard.config import BertConfig, DecodeConfig
from regard.model_folder.atomic import atomic_folder
from regard.model_folder.folder import ModelDescription, write_model
from regard.models.build import build_model
from regard.pipelines.model_translator import ModelTranslator
from regard.tokenizers.characters import CharacterTokenizer


@pytest.fixture
def files(tmp_path: Path, reverse_test: list[tuple[str, str]]) -> tuple[Path, Path]:
    """Sources, and references some of which are not what the model says."""
    references = [target.title() if number % 5 == 0 else target for number, (_, target) in enumerate(reverse_test)]
    (tmp_path / "src").write_text("".join(f"{source}\n" for source, _ in reverse_test))
    (tmp_path / "ref").write_text("".join(f"{reference}\n" for reference in references))
    return tmp_path / "src", tmp_path / "ref"


def evaluate(regard: Any, model: Path, files: tuple[Path, ...], *more: object) -> Any:
    return regard("evaluate", "--model", model, "--src", files[0], "--ref", files[1], *more)


@pytest.mark.parametrize("lowercase", [[], ["--lowercase"]], ids=["cased", "lowercase"])
def test_scores_equal_sacrebleus_on_the_output_file(
    regard: Any, reverse_model: Path, files: tuple[Path, Path], tmp_path: Path, lowercase: list[str]
) -> None:
    said = evaluate(regard, reverse_model, files, "--json", "--outputs", tmp_path / "out", *lowercase)
    assert (said.code, said.err) == (0, "")
    found = json.loads(said.out)
    outputs, references = (path.read_text().splitlines() for path in (tmp_path / "out", files[1]))
    assert found["sentences"] == len(outputs) == len(references)
    assert set(found) == {"model", "sentences", "scores", "loss", "perplexity"}
    bleu = sacrebleu.BLEU(lowercase=bool(lowercase))
    chrf = sacrebleu.CHRF(lowercase=bool(lowercase))
    for name, metric in {"BLEU": bleu, "chrF": chrf}.items():
        assert found["scores"][name]["score"] == pytest.approx(metric.corpus_score(outputs, [references]).score)
        settings, _, version = found["scores"][name]["signature"].rpartition("|")
        assert (settings, version) == (str(metric.get_signature()).rpartition("|")[0], f"version:regard-{__version__}")
    assert found["scores"]["BLEU"]["score"] < 100 or lowercase


def test_loss_is_the_mean_over_reference_tokens(
    regard: Any, reverse_model: Path, files: tuple[Path, Path], reverse: ModelTranslator
) -> None:
    found = json.loads(evaluate(regard, reverse_model, files, "--json", "--beam", 1).out)
    scored = reverse.score(*(path.read_text().splitlines() for path in files))
    tokens = [value for one in scored for value in one.token_log_probs]
    assert found["loss"] == pytest.approx(-sum(tokens) / len(tokens), rel=1e-4)
    assert found["perplexity"] == pytest.approx(math.exp(found["loss"]))


def test_for_people(regard: Any, reverse_model: Path, files: tuple[Path, Path]) -> None:
    lines = evaluate(regard, reverse_model, files).out.splitlines()
    assert lines[0] == f"{reverse_model}: 40 sentences"
    assert [line.split()[0] for line in lines[1:]] == ["BLEU", "chrF", "loss", "perplexity"]
    assert "version:" in lines[1]


def test_against_itself_there_is_no_difference(regard: Any, reverse_model: Path, files: tuple[Path, Path]) -> None:
    found = json.loads(evaluate(regard, reverse_model, files, "--against", reverse_model, "--json").out)
    assert found["against"]["model"] == str(reverse_model)
    for row in found["against"]["bootstrap"]:
        assert row["first"] == row["second"] == pytest.approx(found["scores"][row["name"]]["score"])
        assert row["p_value"] == 1.0
    said = evaluate(regard, reverse_model, files, "--against", reverse_model)
    assert said.out.count("not significant") == 2


def test_against_an_untrained_model(
    regard: Any, reverse_model: Path, random_model: Any, files: tuple[Path, Path]
) -> None:
    said = evaluate(regard, reverse_model, files, "--against", random_model(), "--beam", 1, "--lowercase", "--json")
    for row in json.loads(said.out)["against"]["bootstrap"]:
        assert row["first"] > row["second"] + 50
        assert row["p_value"] < 0.01
        assert "case:lc" in row["signature"]
    said = evaluate(regard, reverse_model, files, "--against", "nowhere")
    assert (said.code, said.out) == (4, "")


def test_the_sentences_of_a_recipe(
    regard: Any, reverse_model: Path, tmp_path: Path, reverse_test: list[tuple[str, str]]
) -> None:
    rows = "".join(f"{source}\t{target}\n" for source, target in reverse_test)
    (tmp_path / "test.tsv").write_text(rows)
    (tmp_path / "recipe.toml").write_text(
        '[[data.train]]\ntoy = "reverse"\n[[data.valid]]\ntoy = "reverse"\nsize = 7\n[[data.test]]\nfile = "test.tsv"\n'
    )
    given = ["evaluate", "--model", reverse_model, "--recipe", tmp_path / "recipe.toml", "--json", "--beam", 1]
    assert json.loads(regard(*given).out)["sentences"] == 7
    test = json.loads(regard(*given, "--split", "test").out)
    assert test["sentences"] == 40
    assert test["scores"]["BLEU"]["score"] > 80
    (tmp_path / "recipe.toml").write_text('[[data.train]]\ntoy = "reverse"\n')
    said = regard(*given, "--split", "test")
    assert (said.code, "has no test data" in said.err) == (2, True)


def test_a_chinese_target_is_scored_as_chinese(regard: Any, random_model: Any, tmp_path: Path) -> None:
    (tmp_path / "src").write_text("apple\nbaby\n")
    (tmp_path / "ref").write_text("苹果。\n宝宝。\n", "utf-8")
    said = evaluate(regard, random_model(tgt_lang="zh"), (tmp_path / "src", tmp_path / "ref"), "--beam", 1, "--json")
    assert "tok:zh" in json.loads(said.out)["scores"]["BLEU"]["signature"]


def test_packed_files(regard: Any, reverse_model: Path, files: tuple[Path, Path], tmp_path: Path) -> None:
    packed = tuple(path.with_suffix(".gz") for path in files)
    for path, plain in zip(packed, files, strict=True):
        path.write_bytes(gzip.compress(plain.read_bytes()))
    unpacked = json.loads(evaluate(regard, reverse_model, files, "--json").out)
    assert json.loads(evaluate(regard, reverse_model, packed, "--json").out) == unpacked


def test_what_cannot_be_evaluated(regard: Any, reverse_model: Path, files: tuple[Path, Path], tmp_path: Path) -> None:
    src, ref = files
    for given in ([], ["--src", src], ["--ref", ref], ["--src", src, "--ref", ref, "--recipe", "x.toml"]):
        said = regard("evaluate", "--model", reverse_model, *given)
        assert (said.code, said.err.startswith("regard: no test data")) == (2, True)
    said = evaluate(regard, reverse_model, (src, tmp_path / "nowhere"))
    assert (said.code, said.err) == (3, f"regard: --ref {tmp_path / 'nowhere'}: file not found\n")
    (tmp_path / "short").write_text("one\n")
    said = evaluate(regard, reverse_model, (src, tmp_path / "short"))
    assert (said.code, "40 lines" in said.err) == (3, True)
    (tmp_path / "empty").write_text("")
    said = evaluate(regard, reverse_model, (tmp_path / "empty", tmp_path / "empty"))
    assert (said.code, "the test set is empty" in said.err) == (3, True)
    said = evaluate(regard, reverse_model, files, "--outputs", tmp_path)
    assert (said.code, said.out, "is a folder" in said.err) == (2, "", True)


def test_overlong_pairs_are_excluded_from_the_loss_only(
    regard: Any, reverse_model: Path, files: tuple[Path, Path], tmp_path: Path
) -> None:
    usual = json.loads(evaluate(regard, reverse_model, files, "--json").out)
    for file in files:
        file.write_text(file.read_text() + "apple " * 3000 + "\n")
    said = evaluate(regard, reverse_model, files, "--json", "--outputs", tmp_path / "out")
    assert (said.code, said.err) == (0, "the loss excludes 1 pairs longer than 2,048 tokens\n")
    assert json.loads(said.out)["loss"] == pytest.approx(usual["loss"])
    assert len((tmp_path / "out").read_text().splitlines()) == json.loads(said.out)["sentences"] == 41
    for file in files:
        file.write_text("apple " * 3000 + "\n")
    said = evaluate(regard, reverse_model, files)
    assert (said.code, "perplexity" in said.out) == (0, False)


def test_a_model_that_does_not_translate_takes_no_options_of_translation(
    regard: Any, make_model: Any, files: tuple[Path, Path], tmp_path: Path
) -> None:
    model = make_model(tmp_path / "poet")
    config = model / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text("utf-8")) | {"model": {"family": "gpt"}}), "utf-8")
    cases: dict[tuple[object, ...], str] = {
        ("--recipe", "r.toml", "--outputs", tmp_path / "out"): "--outputs has no effect",
        (
            "--recipe",
            "r.toml",
            "--task",
            "x",
            "--beam",
            4,
            "--against",
            model,
        ): "--against, --beam, --task has no effect",
        ("--recipe", "r.toml", "--precision", "float32", "--lowercase"): "--precision, --lowercase has no effect",
        ("--src", files[0], "--ref", files[1]): f"{model} is not a translation model; --src, --ref has no effect",
        ("--split", "test"): f"no test data: {model} is not a translation model",
    }
    for words, expected in cases.items():
        said = regard("evaluate", "--model", model, *words)
        assert (said.code, said.out) == (2, "")
        assert expected in said.err


def test_a_classifier_is_scored_on_the_data_of_a_recipe(
    regard: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, new_cache: Any
) -> None:
    monkeypatch.setenv("REGARD_CACHE", str(new_cache(tmp_path / "cache")))
    tokenizer = CharacterTokenizer.of(["good bad"])
    config = BertConfig(
        d_model=8, n_heads=2, d_ff=8, n_layers=1, heads=("classes",), n_labels=2, vocab_size=tokenizer.size
    )
    torch.manual_seed(1)
    weights = {name: parameter.detach().numpy() for name, parameter in build_model(config).named_parameters()}
    description = ModelDescription(config, DecodeConfig(), "", "", False, tokenizer.files(), labels=("yes", "no"))
    with atomic_folder(tmp_path / "model") as folder:
        write_model(folder, description, weights, "")
    rows = [("good", "yes"), ("bad", "no"), ("go bad", "no"), ("dog", "yes"), ("goad", "no")]
    (tmp_path / "valid.tsv").write_text("".join(f"{text}\t{label}\n" for text, label in rows))
    recipe = tmp_path / "r.toml"
    recipe.write_text(
        '[model]\nfamily = "bert"\nheads = ["classes"]\n[[data.train]]\nfile = "none.tsv"\n'
        '[[data.valid]]\nfile = "valid.tsv"\n[train]\nprecision = "float32"\nthreads = 1\n'
    )
    given = ("evaluate", "--model", tmp_path / "model", "--recipe", recipe)
    said = regard(*given, "--json")
    assert (said.code, said.err) == (0, "")
    found = json.loads(said.out)
    assert (found["model"], found["split"]) == (str(tmp_path / "model"), "valid")
    guesses = TextEncoder(tmp_path / "model").classify([text for text, _ in rows])
    right = sum(guess.label == label for guess, (_, label) in zip(guesses, rows, strict=True))
    assert found["scores"]["accuracy"] == pytest.approx(right / len(rows))
    shown = dict(line.split() for line in regard(*given).out.splitlines())
    assert shown == {name: f"{value:.4f}" for name, value in found["scores"].items()}
    said = regard(*given, "--split", "test")
    assert (said.code, said.out) == (2, "")
    assert "the recipe has no test data: set data.test" in said.err


def test_blank_lines_count(regard: Any, reverse_model: Path, tmp_path: Path) -> None:
    (tmp_path / "src").write_text("apple baby\n\ncat cow\n")
    (tmp_path / "ref").write_text("baby apple\n\ncow cat\n")
    said = evaluate(
        regard, reverse_model, (tmp_path / "src", tmp_path / "ref"), "--json", "--outputs", tmp_path / "out"
    )
    assert json.loads(said.out)["sentences"] == 3
    assert (tmp_path / "out").read_text() == "baby apple\n\ncow cat\n"
