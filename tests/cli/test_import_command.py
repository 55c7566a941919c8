"""`regard import` and `regard export`: out to a folder of another library's kind, and in again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest


def test_out_and_in_again(regard: Any, make_model: Any, tmp_path: Path) -> None:
    model = make_model(tmp_path / "model")
    said = regard("export", "hf", model, "-o", tmp_path / "hf")
    assert (said.code, said.out, said.err) == (0, f"wrote {tmp_path / 'hf'}\n", "")
    assert json.loads((tmp_path / "hf" / "config.json").read_text())["model_type"] == "marian"
    said = regard("import", tmp_path / "hf", "-o", tmp_path / "back")
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith(f"wrote {tmp_path / 'back'}: ")
    assert said.out.endswith('parameters; it translates, with regard translate "…"\n')
    options = ("--beam", "1", "--json", "--model")
    rows = [
        json.loads(regard("translate", "a dog runs", *options, folder).out) for folder in (model, tmp_path / "back")
    ]
    tokens = [row["alternatives"][0]["tokens"] for row in rows]
    assert tokens[0][:20] == tokens[1][:20]
    assert tokens[0]


def test_refusals(regard: Any, make_model: Any, tmp_path: Path) -> None:
    model = make_model(tmp_path / "model")
    said = regard("import", model, "-o", tmp_path / "out")
    assert said.code == 4
    assert "has no model_type, so it does not describe a model" in said.err
    said = regard("import", tmp_path / "nowhere", "-o", tmp_path / "out")
    assert (said.code, said.err) == (4, f"regard: there is no folder at {tmp_path / 'nowhere'}\n")
    said = regard("export", "hf", model, "-o", model)
    assert said.code == 4
    assert "exists already" in said.err
    assert regard("import", model).code == 2


def test_to_ctranslate2(regard: Any, make_model: Any, tmp_path: Path) -> None:
    ctranslate2 = pytest.importorskip("ctranslate2")
    model, output = make_model(tmp_path / "model"), tmp_path / "ct2"
    said = regard("export", "ct2", model, "-o", output, "--quantization", "int8")
    assert (said.code, said.out, said.err) == (0, f"wrote {output}\n", "")
    assert ctranslate2.Translator(str(output), compute_type="int8").compute_type.startswith("int8")
    said = regard("export", "ct2", model, "-o", output)
    assert (said.code, said.out) == (4, "")
    assert f"{output} exists already" in said.err
