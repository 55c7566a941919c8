from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from regard.pipelines.model_translator import ModelTranslator


def test_a_pair_in_quotes(regard: Any, reverse_model: Path, reverse: ModelTranslator) -> None:
    said = regard("score", "apple baby bird", "bird baby apple", "--model", reverse_model)
    [wanted] = reverse.score(["apple baby bird"], ["bird baby apple"])
    assert said == (0, f"{wanted.log_prob:.4f}\tbird baby apple\n", "")


def test_every_token_and_the_end(regard: Any, reverse_model: Path) -> None:
    said = regard("score", "apple baby", "baby apple", "--model", reverse_model, "--tokens")
    first, *tokens = said.out.splitlines()
    assert [line.split()[0] for line in tokens] == ["▁baby", "▁apple", "</s>"]
    assert sum(float(line.split()[1]) for line in tokens) == pytest.approx(float(first.split("\t")[0]), abs=2e-4)


def test_json_sums_and_agrees_with_translate(regard: Any, reverse_model: Path, tmp_path: Path) -> None:
    (tmp_path / "src").write_text("apple baby bird\n\ncat cow\n")
    translated = regard("translate", tmp_path / "src", "--model", reverse_model, "--json").out.splitlines()
    found = [json.loads(line) for line in translated]
    (tmp_path / "tgt").write_text("".join(row["translation"] + "\n" for row in found))
    said = regard(
        "score", tmp_path / "src", tmp_path / "tgt", "--model", reverse_model, "--json", "-o", tmp_path / "out"
    )
    assert said == (0, "", "")
    scored = [json.loads(line) for line in (tmp_path / "out").read_text().splitlines()]
    assert [row["source"] for row in scored] == ["apple baby bird", "", "cat cow"]
    for one, other in zip(scored, found, strict=True):
        assert set(one) == {"source", "translation", "log_prob", "score", "tokens", "token_log_probs"}
        assert one["log_prob"] == pytest.approx(sum(one["token_log_probs"]), abs=1e-6)
        if other["translation"]:
            best = other["alternatives"][0]
            assert one["tokens"] == best["tokens"]
            assert one["log_prob"] == pytest.approx(best["log_prob"], abs=1e-4)
            assert one["score"] == pytest.approx(best["score"], abs=1e-4)


def test_one_side_from_standard_input(regard: Any, reverse_model: Path, tmp_path: Path) -> None:
    (tmp_path / "src").write_text("apple baby\ncat cow\n")
    said = regard("score", tmp_path / "src", "-", "--model", reverse_model, stdin=b"baby apple\ncow cat\n")
    assert [line.split("\t")[1] for line in said.out.splitlines()] == ["baby apple", "cow cat"]
    said = regard("score", "-", "-", "--model", reverse_model, stdin=b"baby apple\n")
    assert (said.code, "only one" in said.err) == (2, True)


def test_files_that_do_not_go_line_by_line(regard: Any, reverse_model: Path, tmp_path: Path) -> None:
    (tmp_path / "src").write_text("apple\nbaby\n")
    (tmp_path / "tgt").write_text("apple\n")
    said = regard("score", tmp_path / "src", tmp_path / "tgt", "--model", reverse_model)
    assert (said.code, said.out) == (3, "")
    assert said.err == "regard: 2 source lines but 1 translation lines; the numbers must be equal\n"


def test_an_empty_sentence_is_named(regard: Any, reverse_model: Path) -> None:
    said = regard("score", "-", "apple\n" * 2, "--model", reverse_model, stdin=b"apple\n" + b"apple " * 3000)
    assert said.code == 2
    assert said.err.startswith("regard: sentence 2 has 3,000 tokens")
