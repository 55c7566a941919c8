"""`--task`: one model, several tasks, told on the command line."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from regard.model_folder.atomic import atomic_folder
from regard.model_folder.folder import read_description, read_weights, write_model

TASKS = ("to the end: ", "from the start: ")


@pytest.fixture
def model(random_model: Any, tmp_path: Path) -> Path:
    plain = random_model("plain", family="t5", n_heads=2, head_size=6, d_ff=20)
    told = dataclasses.replace(read_description(plain), tasks=TASKS)
    with atomic_folder(tmp_path / "told") as folder:
        write_model(folder, told, read_weights(plain), "")
    return tmp_path / "told"


def test_translate(regard: Any, model: Path) -> None:
    def scores(*words: object) -> list[float]:
        said = regard("translate", *words, "--model", model, "--json", "--beam", 1)
        assert said.code == 0, said.err
        return [json.loads(line)["score"] for line in said.out.splitlines()]

    assert scores("apple river", "--task", "end") == scores("to the end: apple river")
    assert scores("apple river", "--task", "end") != scores("apple river", "--task", "start")
    said = regard("translate", "apple river", "--model", model)
    assert said.code == 2
    assert "has several tasks; choose one (--task)" in said.err
    assert regard("translate", "apple", "--model", model, "--task", "the").code == 2


def test_evaluate(regard: Any, model: Path, tmp_path: Path) -> None:
    (tmp_path / "src").write_text("apple river\nstone\n")
    (tmp_path / "told-src").write_text(f"{TASKS[0]}apple river\n{TASKS[0]}stone\n")
    (tmp_path / "ref").write_text("苹果 河\n石头\n", "utf-8")

    def figures(src: str, *words: object) -> Any:
        how = ("--ref", tmp_path / "ref", "--json", "--beam", 1)
        said = regard("evaluate", "--model", model, "--src", tmp_path / src, *how, *words)
        assert said.code == 0, said.err
        return json.loads(said.out)

    assert figures("src", "--task", "end")["loss"] == pytest.approx(figures("told-src")["loss"])
    assert figures("src", "--task", "end")["loss"] != pytest.approx(figures("src", "--task", "start")["loss"])
    told = figures("src", "--task", "end", "--against", model)["against"]["bootstrap"]
    assert all(row["first"] == row["second"] for row in told), "the second model is told the task too"
    assert "against" in figures("src", "--task", "end", "--against", tmp_path / "plain"), "it has no tasks"
    assert "tok:zh" in figures("told-src", "--lang", "zh")["scores"]["BLEU"]["signature"]
