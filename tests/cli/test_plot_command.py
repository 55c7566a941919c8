"""`regard plot`: a picture out of metrics."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from regard.train.reports import StepReport, ValidationReport
from regard.train.run_folder import RunFolder


def make_run(path: Path, validations: bool = True, scored: bool = True) -> RunFolder:
    run = RunFolder(path)
    path.mkdir(parents=True)
    for step in range(10, 60, 10):
        report = StepReport(step, 1, 9 - step / 10, 8 - step / 10, 1e-3, 1.0, 1000.0 + step, step / 2, None)
        run.append_metrics(report.row())
    if validations:
        for step in (20, 40):
            bleu, chrf = (step / 2, step * 1.0) if scored else (None, None)
            run.append_metrics(ValidationReport(step, 1, 7 - step / 10, bleu, chrf, 1.0, ()).row())
    return run


def test_the_figure_is_in_the_run_folder(regard: Any, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    picture = run.path / "curves.png"
    assert regard("plot", run.path) == (0, f"wrote {picture}\n", "")
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert regard("plot", run.path).code == 0  # again, as the training goes on


def test_unknown_metrics_are_not_plotted(regard: Any, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    with run.metrics.open("a") as file:
        file.write('5\n{"loss": 1}\n{"kind": "step", "step": 70, "loss": 1.0}\n')
    assert regard("plot", run.path).code == 0
    run.metrics.write_text('{"loss": 1}\n')
    assert (regard("plot", run.path)).code == 5


def test_several_runs_have_different_colours(regard: Any, tmp_path: Path) -> None:
    runs = [make_run(tmp_path / name).path for name in ("plain", "_with $x^$", "中文")]
    out = tmp_path / "new" / "two.svg"
    assert regard("plot", *runs, "-o", out).code == 0
    picture = out.read_text("utf-8")
    assert picture.startswith("<?xml")
    for label in (
        "plain",
        "_with $x^$",
        "中文",
        "Loss",
        "training",
        "validation",
        "BLEU",
        "chrF",
        "Learning rate",
        "Speed",
    ):
        assert f">{label}</text>" in picture
    assert "nothing yet" not in picture


def test_runs_of_one_name_are_shown_by_path(regard: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    make_run(Path("a/run"))
    make_run(Path("b/run"))
    assert regard("plot", "a/run", "b/run", "-o", "c.svg").code == 0
    assert ">a/run</text>" in Path("c.svg").read_text("utf-8")


@pytest.mark.parametrize(("validations", "scored"), [(False, False), (True, False)])
def test_a_run_without_validations(regard: Any, tmp_path: Path, validations: bool, scored: bool) -> None:
    run = make_run(tmp_path / "run", validations, scored)
    with run.metrics.open("a") as file:
        file.write('{"kind": "step", "st')  # being written just now
    assert regard("plot", run.path, "-o", tmp_path / "c.svg").code == 0
    picture = (tmp_path / "c.svg").read_text("utf-8")
    assert ">no data</text>" in picture
    assert (">validation</text>" in picture) == validations


def test_errors(regard: Any, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run").path
    (tmp_path / "empty").mkdir()
    cases: list[tuple[list[object], int, str]] = [
        ([], 2, "RUN"),
        ([run, "-o", tmp_path / "c.jpeg"], 2, "must end in .png or .svg"),
        ([run, "-o", tmp_path / "c"], 2, "must end in .png or .svg"),
        ([run, run], 2, "given twice"),
        ([tmp_path / "empty"], 5, "has no metrics yet"),
        ([tmp_path / "nothing"], 5, "run folder not found"),
        ([run, "-o", run / "metrics.jsonl" / "c.png"], 2, "cannot be written"),
    ]
    for arguments, code, words in cases:
        said = regard("plot", *arguments)
        assert (said.code, said.out) == (code, "")
        assert words in said.err


def test_without_matplotlib(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run").path
    # None in sys.modules is Python's own way to say that a module is not to be had.
    code = "import sys; sys.modules['matplotlib'] = None; from regard.cli.main import main; main()"
    done = subprocess.run([sys.executable, "-c", code, "plot", run], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == 'regard: plotting needs matplotlib, which is not installed: pip install "regard[plot]"\n'
