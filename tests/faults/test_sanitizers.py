"""The C++ under AddressSanitizer and UndefinedBehaviorSanitizer (sanitizers.py)."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

OVERRUN = """
import pytest, torch
from regard.kernels.loader import library
from regard.kernels.training import TRAINING
def test_overrun():
    x, short = torch.ones(64), torch.ones(32)
    library(TRAINING)["relu_dropout_backward_float32"](x, x, 0.5, short, 64)
"""


@pytest.fixture(scope="module")
def sanitizers() -> ModuleType:
    spec = importlib.util.spec_from_file_location("sanitizers", Path(__file__).parent / "sanitizers.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow  # compiling takes a minute or two
def test_an_overrun_is_found(sanitizers: ModuleType, tmp_path: Path) -> None:
    """A kernel that is told of more numbers than there are."""
    (tmp_path / "test_overrun.py").write_text(OVERRUN)
    done = sanitizers.run(str(tmp_path / "test_overrun.py"))
    assert done.returncode != 0
    assert "heap-buffer-overflow" in done.stdout + done.stderr


@pytest.mark.slow
def test_the_kernels_are_clean(sanitizers: ModuleType) -> None:
    done = sanitizers.run("-m", "", *sanitizers.TESTS)
    assert done.returncode == 0, done.stdout + done.stderr
