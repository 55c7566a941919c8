"""A part of `bit_flips.py`, as a process of its own, which a crash of a library ends without ending the tests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).with_name("bit_flips.py")


def flip_bits(count: int, seed: int) -> dict[str, dict[str, int]]:
    command = [sys.executable, str(TOOL), "--flips", str(count), "--seed", str(seed)]
    ended = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
    assert ended.returncode == 0, ended.stderr[-5000:]
    counts: dict[str, dict[str, int]] = json.loads(ended.stdout.splitlines()[-1])
    assert sum(sum(verdicts.values()) for verdicts in counts.values()) == count
    return counts


def test_a_flipped_bit_is_named_or_decides_nothing() -> None:
    counts = flip_bits(75, seed=1)
    for name in ("model", "int8 model"):
        assert counts[name]["refused"] >= 13  # nearly every bit of a model folder is under a checksum
    assert counts["corpus"]["refused"] >= 10
    assert counts["cache"].get("reported", 0) > 5
    assert counts["run"].get("reported", 0) + counts["run"].get("refused", 0) > 3


@pytest.mark.slow
def test_two_thousand_flipped_bits() -> None:
    flip_bits(2000, seed=2)
