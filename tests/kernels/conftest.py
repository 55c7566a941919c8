"""A library of kernels that is compiled in a second, and a folder of its own for it."""

from __future__ import annotations

import ctypes
import logging
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from regard.kernels import loader
from regard.kernels.bindings import Library
from regard.kernels.loader import NativeLibrary

ANSWER = """
#include "boundary.h"
struct Point { int64_t x; float y; };
extern "C" int32_t regard_answer(int64_t* to) { return guarded([=] { *to = 42; }); }
extern "C" int32_t regard_fail(int32_t how) {
  return guarded([=] {
    if (how == 1) throw std::bad_alloc();
    if (how == 2) throw std::length_error("vector");
    if (how == 3) throw std::out_of_range("token 7 is out of range");
    if (how == 4) throw std::invalid_argument("wrong argument");
    if (how == 5) throw std::runtime_error("something else");
    if (how == 6) throw 42;
  });
}
EXPORT_LAYOUT(Point, Point, FIELD(Point, x), FIELD(Point, y))
"""


class Point(ctypes.Structure):
    _fields_ = (("x", ctypes.c_int64), ("y", ctypes.c_float))


@pytest.fixture(autouse=True)
def _warnings_only(caplog: pytest.LogCaptureFixture) -> None:
    """The commands, which tests run in this process too, raise the level of the log."""
    caplog.set_level(logging.WARNING, "regard")


@pytest.fixture(autouse=True)
def _warn_again() -> None:
    """A warning is given once per process."""
    loader.warn_once.cache_clear()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the compiled kernels in an empty cache."""
    monkeypatch.delenv("REGARD_KERNELS")
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "native"


@pytest.fixture
def answer(tmp_path: Path) -> Library:
    assert shutil.which("g++") is not None, "this test needs a C++ compiler"
    path = tmp_path / "answer.cpp"
    path.write_text(f"{ANSWER}// {tmp_path}: a fingerprint of its own\n")
    return Library(path, {"answer": (ctypes.POINTER(ctypes.c_int64),), "fail": (ctypes.c_int32,)}, (Point,))


@pytest.fixture
def ask() -> Callable[[NativeLibrary | None], int]:
    def what(native: NativeLibrary | None) -> int:
        assert native is not None
        found = ctypes.c_int64()
        native["answer"](ctypes.byref(found))
        return found.value

    return what
