"""Numbers, units and negations of generated sentences are kept by every translation, or noted (`sentences.py`)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).with_name("sentences.py")


def attack(report: Path, count: int, **environment: str) -> None:
    command = [sys.executable, str(TOOL), "--count", str(count), "--seed", "7", "--json", str(report)]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment})
    assert report.exists(), done.stderr[-3000:]
    assert json.loads(report.read_text("utf-8")) == {"zh → en": [], "en → zh": []}
    assert done.returncode == 0


def test_the_bundled_models(tmp_path: Path) -> None:
    attack(tmp_path / "report.json", 150)


def test_models_that_babble(tmp_path: Path, babble: Path) -> None:
    """Hardly anything is kept, so hardly anything may go without a note."""
    attack(tmp_path / "report.json", 150, REGARD_MODELS=str(babble))


@pytest.mark.slow
def test_and_thousands(tmp_path: Path) -> None:
    attack(tmp_path / "report.json", 5000)
