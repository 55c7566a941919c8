"""Child processes do not import from the current folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from regard.kernels.bindings import Library
from regard.kernels.loader import load
from regard.processes import ROOT, child_environment, python_command

PLANTED = 'from pathlib import Path\nPath(__file__).with_suffix(".was-run").touch()\n'
MODULES = ("torch", "json", "numpy", "regard", "subprocess")


@pytest.fixture
def trap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with modules that nobody should import."""
    folder = tmp_path / "current"
    folder.mkdir()
    for name in MODULES:
        (folder / f"{name}.py").write_text(PLANTED)
    monkeypatch.chdir(folder)
    return folder


def test_the_current_folder_is_not_imported_from(trap: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["", ".", *os.environ.get("PYTHONPATH", "").split(os.pathsep)]))
    again = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import json, regard'], check=True)"
    for words in (["-c", f"import torch, regard; {again}"], ["-m", "regard", "--version"]):
        subprocess.run(python_command(*words), env=child_environment(), check=True, capture_output=True)
    assert {path.stem for path in trap.iterdir() if path.suffix != ".py"} == set()
    # Without these two, it is.
    subprocess.run([sys.executable, "-c", "import torch"], check=True)
    assert (trap / "torch.was-run").exists()


def test_a_new_kernel_is_tried_without_it(trap: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_KERNELS", str(tmp_path / "kernels"))
    source = tmp_path / "small.cpp"
    source.write_text('#include "boundary.h"\n')
    load(Library(source, {}))
    assert {path.stem for path in trap.iterdir() if path.suffix != ".py"} == set()


def test_a_child_finds_the_package_and_keeps_the_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "relative:/absolute")
    monkeypatch.setenv("REGARD_DATA", "/data")
    found = child_environment(TERM="dumb")
    assert (found["REGARD_DATA"], found["TERM"]) == ("/data", "dumb")
    assert found["PYTHONPATH"].split(os.pathsep) == ["/absolute", str(ROOT)]
