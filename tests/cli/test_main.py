"""How errors and exit codes reach a person."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from regard import __version__, errors
from regard.cli.main import COMMANDS, main
from regard.kernels.bindings import Library
from regard.kernels.loader import load


def test_the_version(regard: Any) -> None:
    said = regard("--version")
    assert (said.code, said.out) == (0, f"regard, version {__version__}\n")


def test_python_runs_it_as_a_module() -> None:
    said = subprocess.run([sys.executable, "-m", "regard", "transalte"], capture_output=True, text=True)
    assert said.returncode == 2
    assert said.stderr.startswith("Usage: regard "), "and it goes by its name"


def test_an_unknown_command_or_option(regard: Any) -> None:
    said = regard("transalte")
    assert said.code == 2
    assert "transalte" in said.err
    assert "Traceback" not in said.err
    said = regard("translate", "--bean", "3")
    assert said.code == 2
    assert "--beam" in said.err, "the nearest right option is suggested"
    assert regard("translate", "--beam", "many").code == 2


def test_without_a_command_the_help_is_shown(regard: Any) -> None:
    said = regard()
    assert said.code == 2
    assert all(name in said.out + said.err for name in COMMANDS)


@pytest.mark.parametrize("command", ["translate", "train", "evaluate", "score"])
def test_help_has_examples(regard: Any, command: str) -> None:
    said = regard(command, "--help")
    assert said.code == 0
    _, _, examples = said.out.partition("Examples:\n")
    assert examples.count(f"regard {command} ") >= 2


@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no C++ compiler here")
def test_the_first_time_it_says_that_it_compiles(
    regard: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    regard("--version")
    regard("--version")  # a second command in one process says things once
    monkeypatch.setenv("REGARD_KERNELS", str(tmp_path / "kernels"))
    source = tmp_path / "answer.cpp"
    source.write_text('#include "boundary.h"\n')
    load(Library(source, {}))
    assert capsys.readouterr() == ("", "compiling answer.cpp for this machine, once: some ten seconds\n")
    load(Library(source, {}))
    assert capsys.readouterr() == ("", "")


def test_the_package_by_itself_is_silent(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from regard.kernels.bindings import Library; "
        "from regard.kernels.loader import library; assert library(Library(Path(sys.argv[1]), {}))"
    )
    source = tmp_path / "answer.cpp"
    source.write_text('#include "boundary.h"\n')
    said = subprocess.run(
        [sys.executable, "-c", script, str(source)],
        env={**os.environ, "REGARD_KERNELS": str(tmp_path / "kernels")},
        capture_output=True,
        check=True,
    )
    assert (said.stdout, said.stderr) == (b"", b"")


def test_what_is_printed_is_utf_8_whatever_the_locale(tmp_path: Path, babble: Path) -> None:
    (tmp_path / "recipe.toml").write_text('[[data.train]]\ntoy = "copy"\n[data]\nsrc_lang = "中文"\n', "utf-8")
    for words, expected in ((["config", "show", tmp_path / "recipe.toml"], '"中文"'), (["models"], "zh → en")):
        done = subprocess.run(
            [sys.executable, "-m", "regard", *map(str, words)],
            capture_output=True,
            env={**os.environ, "PYTHONIOENCODING": "latin-1"},
        )
        assert (done.returncode, done.stderr) == (0, b"")
        assert expected in done.stdout.decode("utf-8")


def test_each_kind_of_error_has_its_code() -> None:
    codes = {kind.__name__: kind.code for kind in errors.RegardError.__subclasses__() if kind.code != 1}
    names = ["ConfigError", "DataError", "ModelFolderError", "RunError", "TrainingDiverged", "NotTranslated"]
    assert codes == dict(zip([*names, "NetworkError", "LostRank"], range(2, 10), strict=True))


def test_the_codes_are_the_command_s(regard: Any, tmp_path: Path, random_model: Any) -> None:
    model = random_model()
    assert regard("translate", "apple", "--model", model, "--beam", 0).code == 2
    (tmp_path / "bad.txt").write_bytes(b"good\nb\xffd\n")
    assert regard("translate", tmp_path / "bad.txt", "--model", model).code == 3
    said = regard("translate", "apple", "--model", tmp_path / "nowhere")
    assert (said.code, said.out) == (4, "")
    assert said.err == f"regard: there is no model folder at {tmp_path / 'nowhere'}\n"
    (tmp_path / "recipe.toml").write_text('[[data.train]]\ntoy = "copy"\n')
    said = regard("train", tmp_path / "recipe.toml", "--run", tmp_path / "none", "--resume")
    assert (said.code, said.err.startswith("regard: no run to resume at")) == (5, True)


def test_system_errors_are_one_line(regard: Any, tmp_path: Path) -> None:
    said = regard("translate", "apple", "--model", "nowhere", "-o", tmp_path / ("long" * 100))
    assert (said.code, said.out) == (1, "")
    assert said.err.startswith("regard: ")
    assert "File name too long" in said.err
    assert len(said.err.splitlines()) == 1


class InterruptedInput(io.BytesIO):
    def read1(self, size: int | None = -1) -> bytes:
        raise KeyboardInterrupt


def test_ctrl_c(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["regard", "tokenize", "-", "--model", "nowhere"])
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(InterruptedInput()))
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 130
    assert capsys.readouterr().err.strip() == "interrupted"
