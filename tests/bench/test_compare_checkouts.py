"""bench/compare_checkouts.py: a checkout equals itself, and every kind of difference is found."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
Script = Callable[[str], ModuleType]


@pytest.fixture
def compare(script: Script) -> ModuleType:
    return script("compare_checkouts")


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "data" / "tatoeba-zh-en"
    folder.mkdir(parents=True)
    for language, text in (("zh", "我爱你。\n他来了。\n"), ("en", "I love you.\nHe came.\n")):
        (folder / f"valid.{language}.gz").write_bytes(gzip.compress(text.encode()))
    monkeypatch.setenv("REGARD_DATA", str(tmp_path / "data"))
    return folder.parent


def write_run(folder: Path, losses: list[float], weights: bytes = b"weights") -> Path:
    (folder / "model").mkdir(parents=True)
    rows = [{"kind": "step", "step": step, "loss": loss, "seconds": step} for step, loss in enumerate(losses, 1)]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    (folder / "model" / "weights.safetensors").write_bytes(weights)
    return folder


@pytest.mark.parametrize(
    ("losses", "weights", "expected"),
    [
        ([1.0, 0.5], b"weights", None),
        ([1.0, 0.5000000000000001], b"weights", "step 2, loss: 0.5 | 0.5000000000000001"),
        ([1.0, 0.5], b"weighty", "weights.safetensors: 7 | 7 bytes, first difference at byte 6"),
        ([1.0], b"weights", "2 and 1 steps logged, not 2"),
    ],
)
def test_finds_the_first_difference_between_two_runs(
    losses: list[float],
    weights: bytes,
    expected: str | None,
    compare: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runs = {"one": write_run(tmp_path / "one", [1.0, 0.5]), "other": write_run(tmp_path / "other", losses, weights)}
    monkeypatch.setattr(compare, "STEPS", 2)
    monkeypatch.setattr(compare, "train_recipe", lambda checkout, recipe, settings: runs[checkout])
    assert compare.run_difference(("one", "other"), "reverse", ()) == expected


def test_json_files_are_equal_whatever_the_order_of_their_keys(compare: ModuleType, tmp_path: Path) -> None:
    texts = {"one.json": '{"a": 1, "b": 2}', "other.json": '{"b": 2, "a": 1}', "third.json": '{"b": 2, "a": 3}'}
    for name, text in texts.items():
        (tmp_path / name).write_text(text, "utf-8")
    assert compare.file_difference(tmp_path / "one.json", tmp_path / "other.json") is None
    assert compare.file_difference(tmp_path / "one.json", tmp_path / "third.json") is not None


@pytest.mark.parametrize(("speed", "passed"), [(98.0, True), (96.0, False)])
def test_a_speed_of_less_than_97_percent_fails(speed: float, passed: bool, compare: ModuleType) -> None:
    turns: list[str] = []

    def turn(side: str) -> dict[str, float]:
        turns.append(side)
        return {"greedy": 100.0 if side == "before" else speed}

    [row] = compare.speed_rows("speed", turn, ("before", "after"), 3)
    assert row.passed == passed
    assert f"ratio {speed / 100:.3f}" in row.result
    assert turns == ["after", "before", "before", "after", "after", "before", "before", "after"]


def test_a_figure_that_only_one_side_has_fails(compare: ModuleType) -> None:
    [row] = compare.speed_rows("speed", lambda side: {side: 1.0}, ("before", "after"), 1)
    assert not row.passed
    assert "other figures" in row.result


def test_refuses_what_is_not_a_checkout(
    compare: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        compare.main([str(ROOT), str(tmp_path), "--only", "exports"])
    assert "it has no src/regard" in capsys.readouterr().err


def run_on_itself(compare: ModuleType, *options: str) -> None:
    with pytest.raises(SystemExit) as ended:
        compare.main([str(ROOT), str(ROOT), *options])
    assert ended.value.code == 0


@pytest.mark.slow
@pytest.mark.usefixtures("data")
def test_a_checkout_equals_itself(
    compare: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every check, at the least size: two sentences, two steps of the toy recipe, one export, toy benchmarks."""
    small: dict[str, Any] = {"RUNS": {"reverse": ()}, "STEPS": 2, "EXPORTS": (("hf",),), "LEAST_RATIO": 0.0}
    for name, value in small.items():
        monkeypatch.setattr(compare, name, value)
    monkeypatch.setattr(compare, "read_sources", lambda language, count: ["我爱你。" if language == "zh" else "Hi."])
    run_on_itself(compare, "--sentences", "1", "--repeats", "1", "--size", "toy", "--work", str(tmp_path / "work"))
    rows = capsys.readouterr().out.splitlines()
    for check in ("translations en-zh int8 no-guards", "losses reverse", "export hf zh-en"):
        assert any(row.startswith(check) and " equal: " in row for row in rows), check
    for check in ("speed Translator int8, one by one", "speed bench/decode.py", "speed bench/train.py"):
        assert any(row.startswith(check) and " ratio " in row for row in rows), check
