"""The everyday words: a list of two hundred, and a count that is right."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from regard.text.language import detect_language

Script = Callable[[str], ModuleType]


def test_the_list(script: Script) -> None:
    rows = script("everyday").read_list()
    assert len(rows) == 200
    for chinese, english in rows:
        assert all(detect_language(form).language == "zh" for form in chinese)
        assert all(detect_language(sense).language == "en" for sense in english)
    for side in (0, 1):
        asked = [row[side][0] for row in rows]
        assert len(set(asked)) == len(asked)


def test_what_makes_no_difference(script: Script) -> None:
    fold = script("everyday").fold
    assert fold("The Library.") == fold("library") == "library"
    assert fold("To  eat!") == "eat"
    assert fold("Don’t") == fold("don't")
    assert fold("你好。") == "你好"
    assert fold("to") == "to"
    assert fold("an apple") != fold("apples")


def test_it_counts(script: Script, babble: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script("everyday").main(["--wrong", "--json", str(tmp_path / "found.json"), "--zh-en", str(babble / "zh-en")])
    found = json.loads((tmp_path / "found.json").read_text("utf-8"))
    for way in ("zh_en", "en_zh"):
        assert found[way]["right"] + len(found[way]["wrong"]) == found[way]["of"] == 200
    assert "zh → en: " in capsys.readouterr().out
