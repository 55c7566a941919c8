"""`regard average`: checkpoints in, one model out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.config import RunConfig
from regard.model_folder.folder import CARD, PROBES, read_description, read_weights
from regard.tokenizers.pair import TokenizerPair
from regard.tokenizers.sentencepiece import SentencePieceModel
from regard.train.run_folder import RunFolder


@pytest.fixture
def run(make_model: Any, tmp_path: Path) -> RunFolder:
    """A run with three checkpoints."""
    folder = RunFolder(tmp_path / "run")
    with folder.created(RunConfig()):
        for step in (100, 200, 300):
            make_model(folder.checkpoint(step), seed=step)
    return folder


def check_mean(out: Path, folders: list[Path]) -> None:
    found, given = read_weights(out), [read_weights(folder) for folder in folders]
    assert found.keys() == given[0].keys()
    for name, weight in found.items():
        np.testing.assert_allclose(weight, np.mean([w[name] for w in given], axis=0), atol=1e-7)


def test_folders(regard: Any, run: RunFolder, tmp_path: Path) -> None:
    folders = [run.checkpoint(100), run.checkpoint(300)]
    said = regard("average", *folders, "-o", tmp_path / "out")
    assert said == (0, f"wrote {tmp_path / 'out'}: mean of step-00000100, step-00000300\n", "")
    check_mean(tmp_path / "out", folders)
    assert read_description(tmp_path / "out") == read_description(folders[0])
    assert "mean of 2 checkpoints" in (tmp_path / "out" / CARD).read_text()


def test_the_last_of_a_run(regard: Any, run: RunFolder, tmp_path: Path) -> None:
    said = regard("average", run.path, "--last", "2", "-o", tmp_path / "out")
    assert (said.code, said.err) == (0, "")
    check_mean(tmp_path / "out", [run.checkpoint(200), run.checkpoint(300)])


def test_fewer_checkpoints_than_wanted(regard: Any, run: RunFolder, tmp_path: Path) -> None:
    said = regard("average", run.path, "-o", tmp_path / "out")
    assert said.code == 0
    assert "has only 3 checkpoints, not 5" in said.err
    check_mean(tmp_path / "out", [run.checkpoint(step) for step in (100, 200, 300)])


def test_nothing_is_overwritten(regard: Any, run: RunFolder, make_model: Any, tmp_path: Path) -> None:
    out = make_model(tmp_path / "out", seed=9)
    before = (out / "SHA256SUMS").read_bytes()
    said = regard("average", run.path, "-o", out)
    assert said.code == 4
    assert f"{out} already exists" in said.err
    assert (out / "SHA256SUMS").read_bytes() == before


def test_different_models_cannot_be_averaged(
    regard: Any, run: RunFolder, make_model: Any, tmp_path: Path, other_vocabulary: SentencePieceModel
) -> None:
    wide = make_model(tmp_path / "wide", d_model=32)
    heads = make_model(tmp_path / "heads", n_heads=4)  # all of its weights have the same shapes
    foreign = make_model(tmp_path / "foreign", tokenizer=TokenizerPair(other_vocabulary, other_vocabulary))
    for other, words in (
        (wide, "model.d_model is 32 and 16"),
        (heads, f"{heads} and {run.checkpoint(100)} cannot be averaged: model.n_heads is 4 and 2"),
        (foreign, "different tokenizers"),
    ):
        said = regard("average", run.checkpoint(100), other, "-o", tmp_path / "out")
        assert said.code == 4
        assert words in said.err
        assert not (tmp_path / "out").exists()


def test_dropout_may_differ(regard: Any, run: RunFolder, make_model: Any, tmp_path: Path) -> None:
    other = make_model(tmp_path / "other", dropout=0.3)
    assert regard("average", run.checkpoint(100), other, "-o", tmp_path / "out").code == 0
    check_mean(tmp_path / "out", [run.checkpoint(100), other])


def test_folders_of_one_name_are_shown_by_path(regard: Any, make_model: Any, tmp_path: Path) -> None:
    folders = [make_model(tmp_path / name / "model", seed) for seed, name in enumerate("ab")]
    said = regard("average", *folders, "-o", tmp_path / "out")
    names = f"{folders[0]}, {folders[1]}"
    assert said == (0, f"wrote {tmp_path / 'out'}: mean of {names}\n", "")
    assert f"mean of 2 checkpoints: {names}." in (tmp_path / "out" / CARD).read_text()


def test_errors(regard: Any, run: RunFolder, tmp_path: Path) -> None:
    empty = RunFolder(tmp_path / "empty")
    with empty.created(RunConfig()):
        pass
    (tmp_path / "file").write_text("in the way")
    cases: list[tuple[list[object], int, str]] = [
        ([], 2, "nothing to average"),
        ([run.checkpoint(100), run.checkpoint(200), "--last", "2"], 2, "--last needs one run folder"),
        ([run.path, "--last", "0"], 2, "--last"),
        ([empty.path], 5, "has no checkpoint yet"),
        ([tmp_path / "nothing"], 4, "there is no model folder"),
        ([run.path, run.checkpoint(100)], 4, "it is a run"),
    ]
    for arguments, code, words in cases:
        said = regard("average", *arguments, "-o", tmp_path / "out")
        assert (said.code, said.out) == (code, "")
        assert words in said.err
    said = regard("average", run.path, "-o", tmp_path / "file" / "out")
    assert said.code == 2
    assert "cannot be written" in said.err
    assert regard("average", run.path).code == 2


def test_a_model_in_half_the_space(regard: Any, run: RunFolder, tmp_path: Path) -> None:
    given = run.checkpoint(100)
    said = regard("average", given, "--weights", "bfloat16", "-o", tmp_path / "small")
    assert said.code == 0
    sizes = [(folder / "weights.safetensors").stat().st_size for folder in (given, tmp_path / "small")]
    assert sizes[1] < 0.6 * sizes[0]
    assert read_description(tmp_path / "small") == read_description(given)
    for name, weight in read_weights(tmp_path / "small").items():
        np.testing.assert_allclose(weight, read_weights(given)[name], rtol=2**-8)
    assert regard("translate", "a dog", "--model", tmp_path / "small").code == 0


def test_a_new_card(regard: Any, run: RunFolder, tmp_path: Path) -> None:
    (tmp_path / "card.md").write_text("---\nlicence: MIT\n---\n# 卡片\n", "utf-8")
    said = regard("average", run.path, "--last", 2, "--card", tmp_path / "card.md", "-o", tmp_path / "out")
    assert said.code == 0
    assert (tmp_path / "out" / CARD).read_text("utf-8") == "---\nlicence: MIT\n---\n# 卡片\n"
    said = regard("average", run.path, "--card", tmp_path / "none.md", "-o", tmp_path / "other")
    assert (said.code, "--card" in said.err) == (2, True)
    assert not (tmp_path / "other").exists()


def test_what_was_recorded_while_it_was_trained_is_kept(regard: Any, run: RunFolder, tmp_path: Path) -> None:
    given = run.checkpoint(100)
    (given / PROBES).write_bytes(b"probes")
    assert regard("average", given, "-o", tmp_path / "out").code == 0
    assert (tmp_path / "out" / PROBES).read_bytes() == b"probes"
    read_description(tmp_path / "out")
