"""A few hundred of the cases (`commands.py`); thousands are in `make test-all`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

TOOL = Path(__file__).with_name("commands.py")


def fuzz(*options: object) -> dict[str, Any]:
    done = subprocess.run([sys.executable, TOOL, *map(str, options)], capture_output=True, text=True)
    assert done.stdout, done.stderr[-3000:]
    report: dict[str, Any] = json.loads(done.stdout)
    assert report["faults"] == []
    assert done.returncode == 0
    return report


def test_no_command_line_is_too_much() -> None:
    report = fuzz("--cases", 400, "--seed", 5, "--processes", 1)
    assert {f"exit code {code}" for code in (0, 2, 3, 4)} <= set(report["counts"])  # the cases reach something


@pytest.mark.slow
def test_nor_are_thousands() -> None:
    fuzz("--cases", 10_000, "--seed", 6, "--processes", 20)


def test_the_fuzzer_can_fail(tmp_path: Path) -> None:
    """It judges commands: here one that raises, and one that has no end."""
    program = f"""
import sys
sys.path.insert(0, {str(TOOL.parent)!r})
from pathlib import Path
import commands
from command_cases import Case
commands.SECONDS = 0.2
class Broken(commands.Fuzzer):
    def prepare(self): pass
fuzzer = Broken(Path({str(tmp_path)!r}), 1)
def broken(): raise SystemExit(eval(sys.argv[1]))
commands.main = broken
for words in ("0", "70", "1/0", "[0 for _ in iter(int, 1)]"):
    fuzzer.check(Case([words], b""))
print([(*fault.splitlines()[1:2], "1/0" in fault, "Hang: no end" in fault) for fault in fuzzer.faults])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert eval(done.stdout) == [
        ("exit code 70", False, False),
        ("exit code -1", True, False),
        ("exit code -1", False, True),
    ]
