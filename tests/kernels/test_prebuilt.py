"""The libraries of a platform wheel: the best one for the CPU is loaded, and a damaged one is not."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from regard.errors import ConfigError
from regard.kernels import instruction_sets, prebuilt
from regard.kernels.bindings import Library
from regard.kernels.compiler import compile_to, find_compiler
from regard.kernels.instruction_sets import NATIVE, X86_64, has_int8, native_flags, supported
from regard.kernels.loader import NativeLibrary, NoKernelsError, load

Ask = Callable[[NativeLibrary | None], int]
OLD = frozenset({"sse2"})
HASWELL = X86_64[1].needs | {"sse2"}
ICE_LAKE = X86_64[2].needs | {"sse2"}
ZEN_4 = X86_64[3].needs | {"sse2"}


@pytest.fixture
def cpu(monkeypatch: pytest.MonkeyPatch) -> Callable[[frozenset[str]], None]:
    """Simulates an x86-64 CPU with these flags."""
    monkeypatch.delenv("REGARD_CPU", raising=False)
    monkeypatch.setattr(instruction_sets, "this_machine", lambda: "x86_64")
    return lambda flags: monkeypatch.setattr(instruction_sets, "cpu_flags", lambda: flags)


@pytest.fixture
def package(answer: Library, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a package with a library for each instruction set; all of them are the same code."""
    folder = tmp_path / "built"
    folder.mkdir()
    compile_to(folder / "answer-baseline.so", answer, find_compiler())
    for name in ("avx2", "avx512", "avx512-bf16"):
        shutil.copy(folder / "answer-baseline.so", folder / f"answer-{name}.so")
    prebuilt.write_manifest(folder)
    monkeypatch.setattr(prebuilt, "FOLDER", folder)
    return folder


def test_it_needs_no_compiler_and_no_cache(
    answer: Library, package: Path, cache: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    assert ask(load(answer)) == 42
    assert not cache.exists()


@pytest.mark.parametrize(
    ("flags", "expected"), [(OLD, "baseline"), (HASWELL, "avx2"), (ICE_LAKE, "avx512"), (ZEN_4, "avx512-bf16")]
)
def test_the_best_one_for_the_cpu_is_loaded(
    answer: Library, package: Path, cpu: Callable[[frozenset[str]], None], flags: frozenset[str], expected: str
) -> None:
    cpu(flags)
    assert load(answer).build.startswith(f"answer-{expected} ")
    assert has_int8() == expected.startswith("avx512")


def test_a_cap_simulates_an_older_cpu(
    answer: Library, package: Path, cpu: Callable[[frozenset[str]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    cpu(ZEN_4)
    assert native_flags() == NATIVE
    monkeypatch.setenv("REGARD_CPU", "avx2")
    assert [one.name for one in supported()] == ["avx2", "baseline"]
    assert load(answer).build.startswith("answer-avx2 ")
    assert native_flags() == ("-march=x86-64-v3",)
    cpu(OLD)  # which the cap does not raise
    assert [one.name for one in supported()] == ["baseline"]
    assert native_flags() == NATIVE


def test_an_unknown_cap_is_refused(cpu: Callable[[frozenset[str]], None], monkeypatch: pytest.MonkeyPatch) -> None:
    cpu(ZEN_4)
    monkeypatch.setenv("REGARD_CPU", "sse9")
    with pytest.raises(ConfigError, match="REGARD_CPU is 'sse9'; set it to one of baseline, avx2, avx512, avx512-bf16"):
        supported()


def test_a_package_without_the_library_compiles_it(answer: Library, package: Path, cache: Path, ask: Ask) -> None:
    for path in package.iterdir():
        path.unlink()
    assert ask(load(answer)) == 42
    assert len(list(cache.iterdir())) == 1


@pytest.mark.parametrize("how", ["changed", "gone", "manifest"])
def test_a_damaged_library_is_not_loaded(
    answer: Library, package: Path, ask: Ask, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    [best, *_] = supported()
    path = package / f"answer-{best.name}.so"
    if how == "changed":
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
    elif how == "gone":
        path.unlink()
    else:
        path = package / prebuilt.MANIFEST
        path.write_text("{")
    assert ask(load(answer)) == 42  # compiled here
    assert caplog.messages[0].startswith(f"{path} is damaged: ")
    assert "install Regard again: pip install --force-reinstall" in caplog.messages[0]


def test_a_damaged_library_without_a_compiler(
    answer: Library, package: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (package / prebuilt.MANIFEST).write_text("[]")
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(NoKernelsError, match=r"need a C\+\+ compiler"):
        load(answer)
    assert "is damaged" in caplog.text


def test_what_is_no_library_here_is_compiled(
    answer: Library, package: Path, ask: Ask, caplog: pytest.LogCaptureFixture
) -> None:
    """Such as one for another C library."""
    for path in package.glob("*.so"):
        path.write_bytes(b"this is no library")
    prebuilt.write_manifest(package)
    assert ask(load(answer)) == 42
    assert "is not used: " in caplog.messages[0]
