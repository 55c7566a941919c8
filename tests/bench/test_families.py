"""The scripts that measure what the families learn: forms of poems, ancestors side by side, CTranslate2 beside us."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

Script = Callable[[str], ModuleType]

TOWER = "白日依山尽，黄河入海流。欲穷千里目，更上一层楼。"


@pytest.fixture
def recipe(reverse_model: Path, tmp_path: Path) -> Path:
    """The sentences that the reversing model was validated on."""
    path = tmp_path / "recipe.toml"
    path.write_text(f"[[data.valid]]\nfile = '{reverse_model.parents[1] / 'valid.tsv'}'\n", "utf-8")
    return path


def test_the_form_of_a_poem(script: Script) -> None:
    metre = script("poem_form")
    assert metre.form_of(TOWER) == "五言四句"
    assert metre.form_of(TOWER * 2) == "五言八句"
    assert metre.form_of(TOWER * 3) == "五言多句"
    for broken in (TOWER[1:], TOWER + "好", TOWER + "。", "", "。"):
        assert metre.form_of(broken) == "杂言"
    assert metre.correct_poems([TOWER, TOWER * 2, TOWER[1:] * 2], "五言八句") == [TOWER * 2]


def test_ancestors_are_measured_and_drawn(
    script: Script, reverse_model: Path, recipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ancestors = script("recurrent_comparison")
    for name in ancestors.MODELS:
        (tmp_path / name).symlink_to(reverse_model.parent)
    picture = tmp_path / "by-length.svg"
    ancestors.main([str(tmp_path), "--recipe", str(recipe), "--plot", str(picture)])
    rows = [line.split("|")[1:-1] for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    assert [row[0].strip() for row in rows[2:]] == list(ancestors.MODELS.values())
    assert {len(row) for row in rows} == {1 + 1 + 5 + 3}
    assert all(float(row[1]) > 80 for row in rows[2:])
    assert "<svg" in picture.read_text("utf-8")


def test_bins_hold_every_sentence_once(script: Script) -> None:
    lengths = [7, 3, 9, 3, 5, 4, 8, 2, 6, 1, 2]
    bins = script("recurrent_comparison").cut(lengths)
    assert sorted(place for places in bins for place in places) == list(range(len(lengths)))
    assert all(max(lengths[i] for i in a) <= min(lengths[i] for i in b) for a, b in itertools.pairwise(bins))


def test_ctranslate2_says_the_same(
    script: Script, reverse_model: Path, recipe: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script("ctranslate2_parity").main(["--model", str(reverse_model), "--recipe", str(recipe), "--split", "valid"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "greedy: 20 of 20 equal, 100.0%"
    assert lines[1] == "beam 4, no length penalty: 20 of 20 equal, 100.0%"
