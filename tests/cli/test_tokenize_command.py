"""`regard tokenize`: pieces, ids, and back."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from regard.cli import tokenize
from regard.tokenizers.pair import TokenizerPair
from regard.tokenizers.sentencepiece import SentencePieceModel

LINES = ["the cat sat", "", "我爱你 😀", "two dogs"]


@pytest.fixture
def spm(tmp_path: Path, vocabulary: SentencePieceModel) -> Path:
    (tmp_path / "bare.model").write_bytes(vocabulary.proto)
    return tmp_path / "bare.model"


def test_pieces(regard: Any, spm: Path) -> None:
    said = regard("tokenize", "the cat sat", "--model", spm)
    assert said.code == 0
    assert said.out.strip().replace(" ", "") == "▁the▁cat▁sat"


def test_there_and_back(regard: Any, make_model: Any, tmp_path: Path, vocabulary: SentencePieceModel) -> None:
    model = make_model(tmp_path / "m")
    text, ids = tmp_path / "text", tmp_path / "ids"
    text.write_text("".join(line + "\n" for line in LINES), "utf-8")
    said = regard("tokenize", text, "--model", model, "--ids")
    assert [[int(word) for word in line.split()] for line in said.out.splitlines()] == vocabulary.encode(LINES)
    ids.write_text(said.out)
    assert regard("tokenize", ids, "--model", model, "--decode") == (0, "".join(line + "\n" for line in LINES), "")


def test_standard_input_and_json(regard: Any, spm: Path, vocabulary: SentencePieceModel) -> None:
    said = regard("tokenize", "-", "--model", spm, "--json", stdin="\n".join(LINES).encode())
    rows = [json.loads(line) for line in said.out.splitlines()]
    assert [row["text"] for row in rows] == LINES
    assert [row["ids"] for row in rows] == vocabulary.encode(LINES)
    assert [row["pieces"] for row in rows] == [vocabulary.pieces(row["ids"]) for row in rows]
    back = regard("tokenize", "--model", spm, "--decode", "--json", stdin=str(rows[0]["ids"]).encode())
    assert json.loads(back.out) == rows[0]


def test_the_side_and_the_case_are_the_models(
    regard: Any, make_model: Any, tmp_path: Path, vocabulary: SentencePieceModel, other_vocabulary: SentencePieceModel
) -> None:
    model = make_model(tmp_path / "m", tokenizer=TokenizerPair(vocabulary, other_vocabulary, lowercase=True))

    def ids(*more: str) -> list[int]:
        return [int(word) for word in regard("tokenize", "The CAT", "--ids", "--model", model, *more).out.split()]

    assert ids() == vocabulary.encode(["the cat"])[0]
    assert ids("--target") == other_vocabulary.encode(["the cat"])[0]
    back = regard("tokenize", " ".join(map(str, ids("--target"))), "--decode", "--target", "--model", model)
    assert back.out == "the cat\n"


def test_the_model_may_come_from_the_environment(regard: Any, spm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_MODEL", str(spm))
    assert regard("tokenize", "cat").code == 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("5 six 7", "line 1: 'six' is not an id"),
        ("5\n6 1.5", "line 2: '1.5' is not an id"),
        ("5 99999", "line 1: id 99999 is not in this vocabulary"),
    ],
)
def test_wrong_ids(regard: Any, spm: Path, text: str, words: str) -> None:
    said = regard("tokenize", text, "--decode", "--model", spm)
    assert (said.code, said.out) == (3, "")
    assert words in said.err


def test_lines_go_in_chunks(
    regard: Any, spm: Path, vocabulary: SentencePieceModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokenize, "CHUNK_LINES", 3)
    said = regard("tokenize", "-", "--ids", "--model", spm, stdin="\n".join(LINES).encode())
    assert [[int(word) for word in line.split()] for line in said.out.splitlines()] == vocabulary.encode(LINES)
    said = regard("tokenize", "5\n6\n7\nx", "--decode", "--model", spm)
    assert (said.code, said.err.startswith("regard: line 4: 'x' is not an id")) == (3, True)


@pytest.mark.usefixtures("nothing_installed")
def test_errors(regard: Any, spm: Path, tmp_path: Path) -> None:
    (tmp_path / "not.model").write_bytes(b"hello")
    cases: list[tuple[list[object], int, str]] = [
        (["x"], 2, "no model is installed for en → any language"),
        (["x", "--model", spm, "--ids", "--decode"], 2, "--ids and --decode"),
        (["x", "--model", tmp_path / "not.model"], 2, f"{tmp_path / 'not.model'}: this is not a SentencePiece model"),
        (["x", "--model", tmp_path / "nothing"], 4, "there is no model folder"),
        (["x", "--model", tmp_path], 4, "not a model folder"),
    ]
    for arguments, code, words in cases:
        said = regard("tokenize", *arguments)
        assert (said.code, said.out) == (code, "")
        assert words in said.err


@pytest.mark.skipif(not Path("/proc/self/mem").is_file(), reason="no file here that cannot be read")
def test_a_vocabulary_that_cannot_be_read(regard: Any) -> None:
    said = regard("tokenize", "x", "--model", "/proc/self/mem")
    assert (said.code, said.out, said.err) == (2, "", "regard: /proc/self/mem cannot be read: Input/output error\n")


def test_it_does_not_import_torch(make_model: Any, tmp_path: Path) -> None:
    model = make_model(tmp_path / "m")
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "regard", "tokenize", "cat", "--model", model],
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    assert done.stdout.startswith("▁")
    assert not any(line.split("|")[-1].strip() == "torch" for line in done.stderr.splitlines())
