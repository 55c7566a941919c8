"""A few of the kills (`kill_matrix.py`); hundreds, with strace, are in `make test-all`."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

TOOL = Path(__file__).with_name("kill_matrix.py")


def attack(*options: object) -> dict[str, Any]:
    done = subprocess.run([sys.executable, TOOL, *map(str, options)], capture_output=True, text=True)
    assert done.stdout, done.stderr[-3000:]
    report: dict[str, Any] = json.loads(done.stdout)
    assert report["wrong"] == []
    assert done.returncode == 0
    return report


def test_every_command_survives_a_kill() -> None:
    report = attack("--kills", 10, "--at", "events", "--seed", 3)
    assert report["kills"] == 10
    assert sum(count for name, count in report["counts"].items() if name.endswith("killed")) == 10


@pytest.mark.slow
def test_and_hundreds() -> None:
    kinds = "events,moments,calls" if shutil.which("strace") else "events,moments"
    assert attack("--kills", 300, "--at", kinds)["kills"] == 300


def test_the_matrix_can_fail(tmp_path: Path) -> None:
    """It judges commands: here one that writes its output in two steps, under its final name."""
    program = f"""
import sys
sys.path.insert(0, {str(TOOL.parent)!r})
from pathlib import Path
import kill_matrix
def careless():
    for number, text in enumerate(("one", "one and two")):
        Path("out.txt").write_text(text)
    Path("done").write_text("")
    raise SystemExit(0)
kill_matrix.regard = careless
class Careless(kill_matrix.Matrix):
    def prepare(self): self.base.mkdir()
matrix = Careless(Path({str(tmp_path)!r}), 1, ("events",))
matrix.attack(kill_matrix.Scenario("careless", ("careless",), outputs=("out.txt",)), 12)
print(sum("out.txt is neither whole nor as before" in fault for fault in matrix.wrong), len(matrix.wrong))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found, faults = map(int, done.stdout.split())
    assert 0 < found == faults < 12
