"""The scripts of bench/ are no package: they find each other when their folder is on the path."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch

BENCH = Path(__file__).parents[2] / "bench"
Script = Callable[[str], ModuleType]


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Iterator[Script]:
    """A module of bench/, by its name; none of them stays behind."""
    monkeypatch.syspath_prepend(BENCH)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield importlib.import_module
    torch.set_num_threads(threads)
    for path in BENCH.glob("*.py"):
        sys.modules.pop(path.stem, None)
