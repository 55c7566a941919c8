"""`regard generate` and `regard fill`, as a person runs them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.config import BertConfig, DecodeConfig, FamilyConfig, GptConfig
from regard.model_folder.atomic import atomic_folder
from regard.model_folder.folder import ModelDescription, write_model
from regard.models.build import build_model
from regard.tokenizers.characters import CharacterTokenizer

TEXT = "今天天气很好，明天不好。\nROMEO:\n"
SIZES: dict[str, Any] = {"d_model": 16, "n_heads": 2, "d_ff": 16, "n_layers": 1, "max_positions": 64}


def write_folder(path: Path, config: FamilyConfig, tokenizer: CharacterTokenizer) -> Path:
    torch.manual_seed(3)
    model = build_model(config).requires_grad_(False)
    for parameter in model.parameters():
        parameter.add_(torch.randn_like(parameter) * 0.3)
    weights = {name: parameter.numpy() for name, parameter in model.named_parameters()}
    with atomic_folder(path) as folder:
        write_model(folder, ModelDescription(config, DecodeConfig(), "", "", False, tokenizer.files()), weights, "")
    return path


@pytest.fixture(scope="module")
def gpt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tokenizer = CharacterTokenizer.of([TEXT])
    return write_folder(tmp_path_factory.mktemp("gpt") / "m", GptConfig(**SIZES, vocab_size=tokenizer.size), tokenizer)


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tokenizer = CharacterTokenizer.of([TEXT])
    config = BertConfig(**SIZES, heads=("masked",), vocab_size=tokenizer.size)
    return write_folder(tmp_path_factory.mktemp("bert") / "m", config, tokenizer)


def test_a_text_is_continued(regard: Any, gpt: Path) -> None:
    said = regard("generate", "ROMEO:", "--model", gpt, "--max-tokens", 30, "--seed", 4)
    assert said.code == 0, said.err
    assert said.out.startswith("ROMEO:")
    assert said.out.endswith("\n")
    assert len(said.out) > 12
    assert regard("generate", "ROMEO:", "--model", gpt, "--max-tokens", 30, "--seed", 4).out == said.out
    assert regard("generate", "ROMEO:", "--model", gpt, "--max-tokens", 30, "--seed", 5).out != said.out
    piped = regard("generate", "-", "--model", gpt, "--max-tokens", 30, "--seed", 4, stdin=b"ROMEO:\n")
    assert piped.out == said.out
    assert regard("generate", "--model", gpt, "--max-tokens", 5).code == 0, "from nothing"


def test_several_texts(regard: Any, gpt: Path) -> None:
    options = ("--model", gpt, "--max-tokens", 20, "--n", 3)
    said = regard("generate", "今天", *options)
    assert said.out.count("---\n") == 2
    rows = [json.loads(line) for line in regard("generate", "今天", *options, "--json").out.splitlines()]
    assert len(rows) == 3
    assert said.out == "---\n".join(f"{(row['prompt'] + row['text']).removesuffix(chr(10))}\n" for row in rows)
    for row in rows:
        assert row["log_prob"] == pytest.approx(sum(row["token_log_probs"]))
    assert regard("generate", "今天", "--model", gpt, "--max-tokens", 20).out.rstrip("\n") == (
        "今天" + rows[0]["text"]
    ).rstrip("\n")


def test_wrong_options(regard: Any, gpt: Path, bert: Path) -> None:
    assert regard("generate", "a").code == 2
    said = regard("generate", "a", "--model", gpt, "--temperature", 0)
    assert (said.code, said.out) == (2, "")
    assert "--temperature must be greater than 0; for greedy decoding use --top-k 1" in said.err
    assert (
        "decode.temperature = 0.001 is too small" in regard("generate", "a", "--model", gpt, "--temperature", 0.001).err
    )
    said = regard("generate", "a", "--model", gpt, "--max-tokens", 0)
    assert (said.code, said.out) == (2, "")
    assert regard("generate", "a", "--model", gpt, "--n", 0).code == 2
    said = regard("generate", "a", "--model", bert)
    assert said.code == 2
    assert "a bert model does not generate text: it predicts masked tokens, with regard fill" in said.err
    said = regard("translate", "a", "--model", gpt)
    assert said.code == 2
    assert "a gpt model does not translate: it generates text, with regard generate" in said.err


def test_masks_are_filled(regard: Any, bert: Path, tmp_path: Path) -> None:
    said = regard("fill", "今天[MASK]气很[MASK]", "--model", bert, "--top", 3)
    assert said.code == 0, said.err
    filled, first, second = said.out.splitlines()
    assert len(filled) == 6
    assert first.startswith("  [MASK] 1  ")
    assert second.count("%") == 3
    [row] = [json.loads(line) for line in regard("fill", "今天[MASK]", "--model", bert, "--json").out.splitlines()]
    assert row["source"] == "今天[MASK]"
    assert row["text"] == "今天" + row["masks"][0][0]["text"]
    assert len(row["masks"][0]) == 5
    lines = tmp_path / "lines.txt"
    lines.write_text("今[MASK]\n[MASK]天\n", "utf-8")
    said = regard("fill", lines, "--model", bert, "--json", "-o", tmp_path / "out.jsonl")
    assert said.code == 0, said.err
    assert len((tmp_path / "out.jsonl").read_text("utf-8").splitlines()) == 2
    said = regard("fill", "今天", "--model", bert)
    assert (said.code, said.out) == (2, "")
    assert "write [MASK] where a token is to be predicted" in said.err


def test_a_line_that_cannot_be_filled_is_named(regard: Any, bert: Path, tmp_path: Path) -> None:
    lines = tmp_path / "lines.txt"
    nothing = "there is nothing to fill: write [MASK] where a token is to be predicted\n"
    lines.write_text("今[MASK]\n今天\n", "utf-8")
    assert regard("fill", lines, "--model", bert) == (2, "", f"regard: {lines}, line 2: {nothing}")
    said = regard("fill", "-", "--model", bert, stdin=lines.read_bytes())
    assert said.err == f"regard: standard input, line 2: {nothing}"
    assert regard("fill", "今天", "--model", bert).err == f"regard: the text, line 1: {nothing}"
    lines.write_text("今[MASK]\n[MASK]\n" + "今" * 70 + "[MASK]\n", "utf-8")
    said = regard("fill", lines, "--model", bert)
    assert (said.code, said.err.startswith(f"regard: {lines}, line 3: this text has 71 tokens")) == (2, True)


def test_tokenize_knows_their_tokenizers(regard: Any, gpt: Path, bert: Path) -> None:
    assert regard("tokenize", "今天[MASK]", "--model", bert).out == "今 天 [MASK]\n"
    ids = regard("tokenize", "今天不好", "--model", gpt, "--ids").out
    assert regard("tokenize", "-", "--model", gpt, "--decode", stdin=ids.encode()).out == "今天不好\n"
    said = regard("tokenize", "-", "--model", gpt, "--decode", stdin=b"1 999")
    assert said.code == 3
    assert "id 999 is not in this vocabulary" in said.err
