"""A part of the fuzzer of the server (`requests.py`), as a process: thousands of cases are in `make test-all`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).with_name("requests.py")


def fuzz(model: Path, count: int, seed: int) -> None:
    command = [sys.executable, TOOL, model, "--count", str(count), "--seed", str(seed), "--patience", "60"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    report = json.loads(done.stdout)
    assert report["faults"] == []
    assert done.returncode == 0
    assert report["cases"] == count
    assert {"200", "400", "404", "405", "422"} <= set(report["counts"])  # the cases reach what they are made for


def test_no_request_is_too_much_for_the_server(reverse_model: Path) -> None:
    fuzz(reverse_model, 500, seed=1)


@pytest.mark.slow
def test_nor_are_thousands(reverse_model: Path) -> None:
    fuzz(reverse_model, 10_000, seed=2)


def test_the_fuzzer_can_fail(tmp_path: Path) -> None:
    """It judges what a server has sent: here one that has an internal error, and one that answers nothing."""
    program = f"""
import sys
sys.path.insert(0, {str(TOOL.parent)!r})
from requests import Case, Fuzzer, Generator
fuzzer = Fuzzer(Generator({{}}, 0), 1.0)
fuzzer.judge(1, Case(b"", True), b"HTTP/1.1 500 Oh\\r\\nContent-Length: 9\\r\\n\\r\\nTraceback", True)
fuzzer.judge(2, Case(b"", True), b"", True)
fuzzer.judge(3, Case(b"", True), b"HTTP/1.1 503 Busy\\r\\nContent-Length: 0\\r\\n\\r\\n" * 2, True)
fuzzer.judge(4, Case(b"", True, "HEAD"), b"HTTP/1.1 200 OK\\r\\nContent-Length: 9\\r\\n\\r\\n", True)
print(*(fault.partition(":")[0] for fault in fuzzer.faults), sorted(fuzzer.counts.items()))
"""
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True)
    expected = "[('200', 1), ('500', 1), ('503', 2), ('left open', 1), ('no answer', 1)]"
    assert done.stdout == f"case 1 case 1 case 2 {expected}\n"
