"""Compiling the kernels and keeping them: by several at once, with a compiler that fails, where nothing can be kept."""

from __future__ import annotations

import logging
import platform
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from regard.kernels.loader import NoKernelsError, fingerprint, library, load


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "native"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    if shutil.which("g++") is None:
        pytest.skip("there is no C++ compiler here")
    path = tmp_path / "answer.cpp"
    path.write_text('extern "C" int answer() { return 42; }\n')
    return path


def test_several_threads_may_compile_at_once(source: Path, cache: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(library, [source] * 4))
    assert [None if kernels is None else kernels.answer() for kernels in found] == [42] * 4
    assert library(source) is not None
    assert [path.suffix for path in cache.iterdir()] == [".so"]


def test_compiling_is_logged_when_it_happens(source: Path, cache: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "regard")
    load(source)
    assert caplog.messages == ["compiling answer.cpp for this machine, once: some ten seconds"]
    load(source)
    assert len(caplog.messages) == 1


def test_what_does_not_compile_leaves_nothing(source: Path, cache: Path) -> None:
    source.write_text("this is no C++")
    assert library(source) is None
    assert list(cache.iterdir()) == []


def test_where_nothing_can_be_kept_there_are_no_kernels(source: Path, cache: Path) -> None:
    cache.parent.write_text("a file where the folder should be")
    assert library(source) is None


def test_without_a_home_there_are_no_kernels(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("REGARD_CACHE", raising=False)
    monkeypatch.setattr(Path, "home", nowhere)
    assert library(source) is None


def test_another_c_library_has_kernels_of_its_own(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two containers may share a home, a processor and the name of the compiler."""
    here = fingerprint(source, "g++")
    monkeypatch.setattr(platform, "libc_ver", lambda: ("glibc", "0.1"))
    assert fingerprint(source, "g++") != here


def test_why_there_are_none(source: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.parent.write_text("a file where the folder should be")
    with pytest.raises(NoKernelsError, match=f"cannot be kept in the cache: .*{cache.parent.name}"):
        load(source)
    cache.parent.unlink()
    source.write_text("this is no C++")
    with pytest.raises(NoKernelsError, match=r"g\+\+ cannot compile them: ."):
        load(source)
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(NoKernelsError, match="need a C\\+\\+ compiler"):
        load(source)
    monkeypatch.setenv("REGARD_NATIVE", "0")
    with pytest.raises(NoKernelsError, match="REGARD_NATIVE is 0"):
        load(source)
