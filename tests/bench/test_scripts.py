"""Every script of bench/ runs and writes what it found: at toy sizes, which say nothing about speed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

BENCH = Path(__file__).parents[2] / "bench"
Script = Callable[[str], ModuleType]

SCRIPTS = (
    *("hardware", "training_operations", "train", "decode", "searches"),
    *("decoding_choices", "memory", "context", "startup", "scaling", "time_to_bleu"),
)
SLOW = ("families",)


def run(script: Script, name: str, folder: Path) -> dict[str, Any]:
    path = folder / "found.json"
    script(name).main(["--toy", "--repeats", "1", "--json", str(path)])
    return dict(json.loads(path.read_text("utf-8")))


@pytest.fixture(autouse=True)
def _without_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REGARD_DATA", raising=False)


@pytest.mark.filterwarnings("ignore")  # what peers say while they import is theirs
@pytest.mark.parametrize("name", [*SCRIPTS, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)])
def test_it_runs_and_writes_its_figures(
    name: str, script: Script, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = run(script, name, tmp_path)
    shown = capsys.readouterr().out
    assert found["machine"]["torch"] == torch.__version__
    assert found["comparisons"]
    for comparison in found["comparisons"]:
        assert comparison["base"] in comparison["figures"]
        assert comparison["ratios"][comparison["base"]] == pytest.approx(1)
        assert f"{comparison['what']}: {comparison['unit']}" in shown
        for system, values in comparison["figures"].items():
            assert len(values) == 1, system
            assert values[0] > 0, system
            assert f"  {system} " in shown
    for system, reason in found["left_out"].items():
        assert f"left out: {system}: {reason}" in shown


def test_startup_with_an_empty_cache_is_timed(script: Script) -> None:
    assert script("startup").seconds_the_first_time("--version") > 0


@pytest.mark.filterwarnings("ignore")
def test_decode_takes_a_trained_model_and_says_what_each_precision_costs(
    script: Script, tmp_path: Path, reverse_model: Path, reverse_test: list[tuple[str, str]]
) -> None:
    ctranslate2 = pytest.importorskip("ctranslate2")
    for at, name in enumerate(("src", "ref")):
        (tmp_path / name).write_text("".join(f"{pair[at]}\n" for pair in reverse_test), "utf-8")
    files = ["--src", str(tmp_path / "src"), "--ref", str(tmp_path / "ref"), "--json", str(tmp_path / "found.json")]
    decode = script("decode")
    decode.main(["--model", str(reverse_model), *files, "--toy", "--repeats", "1"])
    found = json.loads((tmp_path / "found.json").read_text("utf-8"))
    scores = dict(re.findall(r"BLEU of regard (\w+): ([\d.]+)", "\n".join(found["notes"])))
    assert list(scores) == ["float32", "bfloat16", "int8"]
    assert all(float(score) > 50 for score in scores.values())
    [tried] = [note for note in found["notes"] if " the fastest is " in note]
    assert all(form in tried for form in ctranslate2.get_supported_compute_types("cpu") - {"float32"})
    best = tried.rpartition(" ")[2]
    for comparison in found["comparisons"]:
        assert {"CTranslate2 float32", f"CTranslate2 {best}"} <= comparison["figures"].keys()
    (tmp_path / "ref").write_text("one\n", "utf-8")
    with pytest.raises(SystemExit, match="but 1 references: one each is needed"):
        decode.main(["--model", str(reverse_model), *files])


@pytest.mark.filterwarnings("ignore")
def test_train_has_every_peer_that_is_installed_and_says_who_is_not(script: Script) -> None:
    train, peers = script("train"), script("peers")
    report = script("report").Report()
    systems = train.make_systems(script("workloads").config_of("toy"), report)
    assert {"nn.Transformer float32", "regard float32"} <= systems.keys()
    for name, (module, _) in peers.TRAINERS.items():
        reason = peers.missing(module)
        assert report.left_out.get(name) == reason
        assert (f"{name} float32" in systems) == (reason is None)


def test_run_all_runs_every_script(script: Script) -> None:
    """What can be run is run by `make bench`, and has its smoke test here; but for what wants a model, or hours."""
    runnable = {path.stem for path in BENCH.glob("*.py") if re.search(r"^def main\(", path.read_text("utf-8"), re.M)}
    assert runnable == {
        *SCRIPTS,
        *SLOW,
        "run_all",
        "explore",
        "guard_effects",
        "everyday",
        "short_sentences",
        "guard_speed",
        "instruction_sets",
        "poem_form",
        "ctranslate2_parity",
        "recurrent_comparison",
        "compare_checkouts",
    }
    assert set(script("run_all").SCRIPTS) == {*SCRIPTS, *SLOW} - {"time_to_bleu"}


def test_run_all_makes_one_file_and_one_table(
    script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    run_all = script("run_all")
    monkeypatch.setattr(run_all, "SCRIPTS", ("training_operations", "hardware"))
    path = tmp_path / "new" / "all.json"
    run_all.main(["--toy", "--repeats", "1", "--json", str(path)])
    found = json.loads(path.read_text("utf-8"))
    assert list(found["results"]) == ["training_operations", "hardware"]
    last = capfd.readouterr().out.partition("== best of Regard")[2]
    assert "regard Dropout / F.dropout" in last
    assert str(path) in last


def test_run_all_goes_on_after_a_failure_and_says_so(
    script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_all = script("run_all")
    monkeypatch.setattr(run_all, "SCRIPTS", ("nothing", "training_operations"))
    path = tmp_path / "all.json"
    with pytest.raises(SystemExit, match="failed: nothing"):
        run_all.main(["--toy", "--repeats", "1", "--json", str(path)])
    results = json.loads(path.read_text("utf-8"))["results"]
    assert results["nothing"]["failed"]
    assert results["training_operations"]["comparisons"]
