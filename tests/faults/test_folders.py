"""Damaged model folders and Hugging Face folders of every family: refused with the file named, or they work."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

FUZZER = Path(__file__).with_name("folders.py")


def fuzz(cases: int, seed: int) -> dict[str, int]:
    """In a process of its own, which a crash of a library ends without ending the tests."""
    command = [sys.executable, str(FUZZER), "--cases", str(cases), "--seed", str(seed)]
    ended = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
    assert ended.returncode == 0, ended.stderr[-5000:]
    counts: dict[str, int] = json.loads(ended.stdout.splitlines()[-1])
    return counts


def test_folders() -> None:
    counts = fuzz(cases=250, seed=1)
    assert counts["refused"] + counts["works"] == 250
    assert counts["works"] > 10  # not everything is refused


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 104))
def test_thousands_of_folders(seed: int) -> None:
    assert fuzz(cases=2500, seed=seed)["wrong"] == 0
