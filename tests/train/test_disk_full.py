"""The disk is full. Files may not grow beyond a limit: to a program it is the same, and no other process notices."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from regard.train.run_folder import RunFolder

Contents = Callable[[Path], dict[str, bytes]]

# The toy's settings take 3 kB, its weights 32 kB, its optimiser's state 63 kB.
LIMITS = {"weights": 10_000, "optimizer": 50_000}


def train(regard: Any, recipe: Path, folder: RunFolder, *words: object, **limits: int) -> tuple[int, str, str]:
    again = ["--resume"] if folder.config.exists() else []
    ended: tuple[int, str, str] = regard("train", recipe, "--run", folder.path, *again, *words, **limits).wait()
    return ended


def weights_of(folder: RunFolder, contents: Contents) -> dict[str, bytes]:
    return {name: found for name, found in contents(folder.path).items() if name.endswith(".safetensors")}


def check(folder: RunFolder, before: dict[str, bytes], contents: Contents) -> None:
    """All checkpoints and the model are as they were, and there is nothing else."""
    after = contents(folder.path)
    for name in ("metrics.jsonl", "config.json"):
        before.pop(name), after.pop(name)
    assert after == before
    assert list(folder.path.rglob(".*")) == []


@pytest.mark.parametrize("too_large", LIMITS)
def test_a_checkpoint_does_not_fit(
    regard: Any, recipe: Path, tmp_path: Path, contents: Contents, too_large: str
) -> None:
    whole, folder = RunFolder(tmp_path / "whole"), RunFolder(tmp_path / "run")
    assert train(regard, recipe, whole)[0] == 0
    assert train(regard, recipe, folder, "--set", "train.max_steps=8")[0] == 0
    before = contents(folder.path)
    code, _, errors = train(regard, recipe, folder, largest_file=LIMITS[too_large])
    assert code == 5
    assert errors.startswith(f"regard: {folder.checkpoint(12)} could not be written: ")
    assert "File too large" in errors
    assert errors.endswith("continue with --resume.\n")
    check(folder, before, contents)

    assert train(regard, recipe, folder)[0] == 0
    assert weights_of(folder, contents) == weights_of(whole, contents)


def test_the_metrics_do_not_fit(regard: Any, recipe: Path, tmp_path: Path, contents: Contents) -> None:
    folder = RunFolder(tmp_path / "run")
    assert train(regard, recipe, folder)[0] == 0
    before = contents(folder.path)
    longer = ("--set", "train.max_steps=200", "--set", "train.validate_every=1000")
    code, _, errors = train(regard, recipe, folder, *longer, largest_file=15_000)
    assert code == 5
    assert errors.startswith(f"regard: {folder.metrics} could not be written: ")
    assert "File too large" in errors
    check(folder, before, contents)
    steps = [row["step"] for row in folder.read_metrics()]
    assert 12 < max(steps) < 200

    code, out, _ = train(regard, recipe, folder, "--set", "train.max_steps=20")
    assert code == 0
    assert "resumed at step 12" in out
    assert [row["step"] for row in folder.read_metrics() if row["kind"] == "step"] == list(range(1, 21))


def test_the_model_does_not_fit(regard: Any, recipe: Path, tmp_path: Path, contents: Contents) -> None:
    folder = RunFolder(tmp_path / "run")
    assert train(regard, recipe, folder)[0] == 0
    before = contents(folder.path)
    code, _, errors = train(regard, recipe, folder, largest_file=LIMITS["weights"])
    assert code == 5
    assert errors.startswith(f"regard: {folder.model} could not be written: ")
    check(folder, before, contents)


def test_not_even_the_settings_fit(regard: Any, recipe: Path, tmp_path: Path) -> None:
    assert train(regard, recipe, RunFolder(tmp_path / "first"))[0] == 0  # so that the data is in the cache
    folder = RunFolder(tmp_path / "run")
    code, _, errors = train(regard, recipe, folder, largest_file=1000)
    assert code == 5
    assert errors.startswith(f"regard: {folder.config} could not be written: ")
    assert list(folder.path.iterdir()) == []
    assert train(regard, recipe, folder)[0] == 0


@pytest.mark.parametrize(("too_large", "entry"), [(1000, "tokenizer"), (20_000, "pairs")])
def test_the_cache_does_not_fit(
    regard: Any,
    recipe: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    new_cache: Any,
    too_large: int,
    entry: str,
) -> None:
    cache = new_cache(tmp_path / "cache")
    recipe.write_text(recipe.read_text().replace("size = 150", "size = 4000"))
    monkeypatch.setenv("REGARD_CACHE", str(cache))
    folder = RunFolder(tmp_path / "run")
    code, _, errors = train(regard, recipe, folder, largest_file=too_large)
    assert code == 3
    assert errors.startswith(f"regard: {cache / entry}/")
    assert "could not be written: File too large. Free disk space, or set REGARD_CACHE" in errors
    assert [path for path in (cache / entry).iterdir() if not path.name.startswith(".")] == []
    assert not folder.path.exists()
