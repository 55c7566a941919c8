"""A part of `engine_fuzz.py`: the engine against random small models."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.faults import engine_fuzz

from regard.processes import child_environment

TOOL = Path(__file__).with_name("engine_fuzz.py")


def fuzz(*arguments: str) -> dict[str, int]:
    command: Sequence[str] = [sys.executable, str(TOOL), *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, env=child_environment(OMP_NUM_THREADS="1"))
    assert ended.returncode == 0, ended.stderr[-5000:]
    counts: dict[str, int] = json.loads(ended.stdout)
    return counts


def test_the_engine_agrees_with_random_models() -> None:
    counts = fuzz("--cases", "120", "--seed", "5")
    assert sum(counts.values()) == 120
    assert counts.keys() == {"steps", "scores", "greedy", "beam", "sampling"}


@pytest.mark.slow
def test_the_engine_agrees_with_thousands_of_random_models() -> None:
    fuzz("--cases", "3000", "--seed", "6")


@pytest.mark.parametrize("check", ["steps", "scores", "greedy", "beam", "sampling"])
def test_a_wrong_engine_is_found(check: str) -> None:
    """One weight of the model is changed after the engine was built."""
    case = engine_fuzz.Case(31)
    case.model.get_parameter("decoder.0.ffn.up.bias" if case.model.config.ffn != "moe" else "output_bias").add_(3.0)
    case.model.tgt_embedding.weight.mul_(-1.0)

    def compare() -> None:
        for _ in range(20):
            getattr(case, check)()

    with pytest.raises(engine_fuzz.Difference):
        compare()
