"""`regard params`: the ledger of presets, recipes and model folders."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from regard.config import PRESETS, VOCABULARIES
from regard.tokenizers.pair import TokenizerPair
from regard.tokenizers.sentencepiece import SentencePieceModel


def test_base_is_the_papers(regard: Any) -> None:
    said = regard("params", "base")
    assert said.code == 0
    assert "63,082,496 parameters, vocabulary 37,000" in said.out
    lines = {line.split()[0]: line for line in said.out.splitlines() if line}
    assert "37,000 × 512" in lines["tgt_embedding.weight"]
    assert lines["tgt_embedding.weight"].endswith("shared with src_embedding and output")
    assert "1,536 × 512" in lines["encoder.0…5.attention.qkv.weight"]
    assert " × 6 " in lines["encoder.0…5.attention.qkv.weight"]
    assert "39.9%  ████████████" in lines["ffn"]
    assert "100.0%" in lines["total"]
    assert "positions" not in lines
    assert "\x1b" not in said.out
    assert not any(line.endswith(" ") for line in said.out.splitlines())


def test_recurrent_presets_have_a_ledger(regard: Any) -> None:
    said = regard("params", "gnmt", "--vocab", "32000")
    assert said.code == 0
    assert "289,224,704 parameters, vocabulary 32,000" in said.out
    lines = {line.split()[0]: line for line in said.out.splitlines() if line}
    assert " × 8 " in lines["decoder.0…7.recurrence.recurrent.weight"]
    assert lines["recurrence"].split()[1] == "188,821,504"
    assert "ffn" not in lines
    assert regard("params", "lstm").code == regard("params", "bahdanau").code == 0


@pytest.mark.parametrize("preset", list(PRESETS))
def test_every_preset_has_a_ledger_and_is_named_in_the_help(regard: Any, preset: str) -> None:
    said = regard("params", preset)
    assert said.code == 0, said.err
    first = said.out.splitlines()[0]
    if preset.startswith("vit"):
        assert "vocabulary" not in first
    else:
        assert f"vocabulary {VOCABULARIES.get(preset, 37_000):,}, " in first
    assert preset in "".join(regard("params", "--help").out.split())  # a line may end at a hyphen


def test_later_presets_have_the_published_sizes(regard: Any) -> None:
    assert "124,439,808 parameters, vocabulary 50,257, its own (change it with --vocab)" in regard("params", "gpt2").out
    assert "174,604,259,328 parameters" in regard("params", "gpt3").out
    found = json.loads(regard("params", "bert-base", "--json").out)
    assert found["total"] == 109_482_240
    assert found["vocab_size"] == 30_522
    assert "src_vocab_size" not in found


def test_active_parameters_are_shown_for_experts(regard: Any) -> None:
    said = regard("params", "deepseek-v3").out
    assert "671,026,419,200 parameters, 36,625,625,600 active per token, vocabulary" in said
    found = json.loads(regard("params", "deepseek-v3", "--json").out)
    assert (found["total"], found["active"]) == (671_026_419_200, 36_625_625_600)
    assert "meets" not in regard("params", "vit-base").out
    assert "active" not in json.loads(regard("params", "vit-base", "--json").out)


def test_json_adds_up(regard: Any) -> None:
    folded = json.loads(regard("params", "tiny", "--vocab", "1000", "--json").out)
    every = json.loads(regard("params", "tiny", "--vocab", "1000", "--json", "--all").out)
    for found in (folded, every):
        assert found["src_vocab_size"] == found["tgt_vocab_size"] == 1000
        assert sum(matrix["count"] for matrix in found["matrices"]) == found["total"]
        assert sum(group["count"] for group in found["groups"].values()) == found["total"]
        assert sum(group["share"] for group in found["groups"].values()) == pytest.approx(1)
    assert {matrix["times"] for matrix in folded["matrices"]} == {1, 4}
    assert {matrix["times"] for matrix in every["matrices"]} == {1}
    assert "encoder.3.ffn.up.weight" in [matrix["name"] for matrix in every["matrices"]]


def test_a_recipe_has_the_vocabulary_of_its_tokenizer(
    regard: Any, tmp_path: Path, vocabulary: SentencePieceModel
) -> None:
    recipe = tmp_path / "r.toml"

    def total_and_text(*more: str) -> str:
        said = regard("params", recipe, *more)
        assert said.code == 0, said.err
        return str(said.out.splitlines()[0])

    recipe.write_text("[data.tokenizer]\nvocab_size = 500\n")
    assert "vocabulary 500 from data.tokenizer.vocab_size" in total_and_text()
    assert total_and_text("--vocab", "700").endswith("vocabulary 700")
    recipe.write_text('[data.tokenizer]\nfiles = ["t.model"]\n')
    assert "37,000, the paper's, since" in total_and_text()
    (tmp_path / "t.model").write_bytes(vocabulary.proto)
    assert f"vocabulary {vocabulary.size}, the tokenizer's" in total_and_text()
    recipe.write_text('[model]\nsharing = "output"\nsrc_vocab_size = 300\ntgt_vocab_size = 400\n')
    assert "300 (source) and 400 (target)" in total_and_text()


def test_a_model_folder(
    regard: Any, make_model: Any, tmp_path: Path, vocabulary: SentencePieceModel, other_vocabulary: SentencePieceModel
) -> None:
    from regard.model_folder.folder import read_weights

    folder = make_model(tmp_path / "m", tokenizer=TokenizerPair(vocabulary, other_vocabulary))
    found = json.loads(regard("params", folder, "--json", "--all").out)
    assert found["total"] == sum(weight.size for weight in read_weights(folder).values())
    assert {m["name"]: tuple(m["shape"]) for m in found["matrices"]} == {
        name: weight.shape for name, weight in read_weights(folder).items()
    }
    assert (found["src_vocab_size"], found["tgt_vocab_size"]) == (vocabulary.size, other_vocabulary.size)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["huge"], 2, f"huge is not a preset ({', '.join(PRESETS)}), a recipe"),
        (["no.toml"], 2, "there is no recipe at no.toml"),
        (["."], 4, "not a model folder"),
        (["base", "--vocab", "0"], 2, "--vocab"),
    ],
)
def test_errors(
    regard: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: int, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    said = regard("params", *arguments)
    assert (said.code, said.out) == (code, "")
    assert words in said.err


def test_vocab_of_a_folder_is_refused(regard: Any, make_model: Any, tmp_path: Path) -> None:
    said = regard("params", make_model(tmp_path / "m"), "--vocab", "9")
    assert said.code == 2
    assert "has a fixed vocabulary" in said.err


def test_a_narrow_terminal_says_what_is_shared_below(tmp_path: Path) -> None:
    reader, terminal = pty.openpty()
    environment = {**os.environ, "COLUMNS": "80", "TERM": "xterm-256color", "PYTHONIOENCODING": "utf-8"}
    environment.pop("NO_COLOR", None)
    command = [sys.executable, "-m", "regard", "params", "tiny"]
    with subprocess.Popen(command, stdout=terminal, env=environment) as process:
        os.close(terminal)
        written = b""
        while chunk := read_terminal(reader):
            written += chunk
    os.close(reader)
    assert process.returncode == 0
    lines = written.decode().splitlines()
    assert any("\x1b[1m" in line for line in lines)
    assert "tgt_embedding.weight is shared with src_embedding and output" in lines


def read_terminal(reader: int) -> bytes:
    try:
        return os.read(reader, 65536)
    except OSError:  # how Linux says that the other end was closed
        return b""
