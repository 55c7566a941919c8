"""Compiling and storing the kernels: several at once, with a compiler that fails, where nothing can be stored."""

from __future__ import annotations

import ctypes
import logging
import platform
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch

from regard.kernels.bindings import ENGINE, ArrayArgument, Library, SearchCall
from regard.kernels.compiler import compile_to, find_compiler, fingerprint
from regard.kernels.loader import NativeLibrary, NoKernelsError, RefusedLibraryError, library, load
from regard.kernels.native_library import open_handle
from regard.kernels.training import MEMORY, TRAINING, AttentionMask, HeadRows, PackedMatrix, kernel

Ask = Callable[[NativeLibrary | None], int]


def test_several_threads_may_compile_at_once(answer: Library, cache: Path, ask: Ask) -> None:
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(library, [answer] * 4))
    assert [ask(native) for native in found] == [42] * 4
    assert library(answer) is not None
    assert [path.name for path in cache.iterdir()] == [fingerprint(answer, find_compiler())]


def test_compiling_is_logged_when_it_happens(answer: Library, cache: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "regard")
    load(answer)
    assert caplog.messages == ["compiling answer.cpp for this machine, once: some ten seconds"]
    assert load(answer).not_stored == ""
    assert len(caplog.messages) == 1


def test_what_does_not_compile_leaves_nothing(answer: Library, cache: Path, caplog: pytest.LogCaptureFixture) -> None:
    answer.source.write_text("this is no C++")
    assert library(answer) is None
    assert list(cache.iterdir()) == []
    (message,) = caplog.messages
    assert re.match(r"the C\+\+ kernels of answer.cpp are not used.*: .*g\+\+ cannot compile them: .", message)


def test_another_c_library_has_kernels_of_its_own(answer: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two containers may share a home, a processor and the name of the compiler."""
    here = fingerprint(answer, "g++")
    monkeypatch.setattr(platform, "libc_ver", lambda: ("glibc", "0.1"))
    assert fingerprint(answer, "g++") != here


def test_why_there_are_none(answer: Library, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer.source.write_text("this is no C++")
    with pytest.raises(NoKernelsError, match=r"g\+\+ cannot compile them: ."):
        load(answer)
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(NoKernelsError, match="need a C\\+\\+ compiler such as g\\+\\+: install one"):
        load(answer)
    monkeypatch.setenv("REGARD_NATIVE", "0")
    with pytest.raises(NoKernelsError, match="REGARD_NATIVE is 0"):
        load(answer)


def test_it_is_said_once(answer: Library, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """However often, and for however many structures, the kernels are asked for."""
    monkeypatch.setenv("REGARD_NATIVE", "0")
    for functions in (answer.functions, {}):
        same = Library(answer.source, functions)
        assert [library(same), library(same)] == [None, None]
    assert caplog.messages == [
        "the C++ kernels of answer.cpp are not used, and Regard is slower without them: "
        "the environment variable REGARD_NATIVE is 0"
    ]


EXCEPTIONS: list[tuple[int, type[Exception], str]] = [
    (1, MemoryError, "could not allocate"),
    (2, MemoryError, "could not allocate"),
    (3, IndexError, "token 7 is out of range"),
    (4, ValueError, "wrong argument"),
    (5, RuntimeError, "something else"),
    (6, RuntimeError, "unknown exception"),
]


def test_an_exception_in_c_becomes_one_in_python(answer: Library, cache: Path, ask: Ask) -> None:
    native = load(answer)
    for how, error, message in EXCEPTIONS:
        native["fail"](0)
        with pytest.raises(error, match=rf"{message}.* \(in regard_fail\)$"):
            native["fail"](how)
        assert ask(native) == 42


def shifted(structure: type[ctypes.Structure]) -> type[ctypes.Structure]:
    """A structure of the same name with one more field in front."""
    return type(structure.__name__, (ctypes.Structure,), {"_fields_": (("more", ctypes.c_int32), *structure._fields_)})


def narrowed(structure: type[ctypes.Structure]) -> type[ctypes.Structure]:
    """The same offsets and size, but the last field is smaller than its padding."""
    *others, (name, _) = structure._fields_  # type: ignore[misc]
    return type(structure.__name__, (ctypes.Structure,), {"_fields_": (*others, (name, ctypes.c_int16))})


@pytest.mark.parametrize("tamper", [shifted, narrowed])
def test_a_structure_with_another_layout_is_refused(
    answer: Library, cache: Path, caplog: pytest.LogCaptureFixture, tamper: object
) -> None:
    assert callable(tamper)
    wrong = Library(answer.source, answer.functions, (tamper(*answer.structures),))
    message = r"Point has another layout.*\[16, 0, 8, 8, 4\]"
    with pytest.raises(NoKernelsError, match=f"fails its self-test: the structure {message}"):
        load(wrong)
    assert library(answer) is not None
    with pytest.raises(RefusedLibraryError, match=message):
        load(wrong)
    assert library(wrong) is None
    assert re.search(f"the C.. kernels of answer.cpp are not used.*: the structure {message}", caplog.messages[-1])


@pytest.mark.parametrize(("whole", "structure"), [(TRAINING, PackedMatrix), (ENGINE, SearchCall)])
def test_the_kernels_with_a_tampered_structure_are_refused(whole: Library, structure: type[ctypes.Structure]) -> None:
    assert library(whole) is not None, "this test needs a C++ compiler"
    wrong = Library(whole.source, whole.functions, (shifted(structure),), whole.returning_nothing, whole.flags)
    with pytest.raises(RefusedLibraryError, match=structure.__name__):
        load(wrong)


def test_a_missing_function_is_refused(answer: Library, cache: Path) -> None:
    with pytest.raises(NoKernelsError, match=r"fails its self-test: .*no function regard_other"):
        load(Library(answer.source, {"other": ()}))
    load(answer)
    with pytest.raises(RefusedLibraryError, match="no function regard_other"):
        load(Library(answer.source, {"other": ()}))
    with pytest.raises(RefusedLibraryError, match="no function regard_layout_PackedMatrix"):
        load(Library(answer.source, {}, (PackedMatrix,)))


def test_every_exported_function_is_bound() -> None:
    """What the sources export is what bindings.py lists; ctypes would take any argument for the rest."""
    for whole in (TRAINING, ENGINE, MEMORY):
        native = library(whole)
        assert native is not None, "this test needs a C++ compiler"
        text = whole.source.read_text("utf-8")
        names = {word.split("(")[0].removesuffix("_##suffix") for word in text.split("regard_")[1:] if "(" in word[:40]}
        bound = {name.removesuffix("_float32").removesuffix("_bfloat16") for name in whole.functions}
        assert names == bound
        for name, function in native.functions.items():
            assert function.argtypes == whole.functions[name]


WRONG_CALLS = {
    "another type": lambda x: (x.double(), x, 0.1, x, 3),
    "not dense": lambda x: (x.T, x, 0.1, x, 3),
    "an address": lambda x: (x.data_ptr(), x, 0.1, x, 3),
    "nothing": lambda x: (None, x, 0.1, x, 3),
    "another device": lambda x: (x.to("meta"), x, 0.1, x, 3),
    "a number for a tensor": lambda x: (x, x, x, x, 3),
    "a float for a count": lambda x: (x, x, 0.1, x, 3.0),
}


@pytest.mark.parametrize("how", WRONG_CALLS)
def test_a_wrong_argument_raises(how: str) -> None:
    native = library(TRAINING)
    assert native is not None, "this test needs a C++ compiler"
    x = torch.ones(2, 3)
    with pytest.raises(ctypes.ArgumentError):
        native["relu_dropout_backward_float32"](*WRONG_CALLS[how](x))
    native["relu_dropout_backward_float32"](x, x, 0.5, x, 6)
    assert torch.equal(x, torch.full((2, 3), 0.5))


def test_too_few_arguments_raise() -> None:
    assert library(TRAINING) is not None, "this test needs a C++ compiler"
    with pytest.raises(TypeError, match="at least 5 arguments"):
        kernel("relu_dropout_backward", torch.float32)()


def test_a_structure_for_another_raises() -> None:
    native = library(ENGINE)
    assert native is not None, "this test needs a C++ compiler"
    with pytest.raises(ctypes.ArgumentError):
        native["begin"](None, ctypes.byref(SearchCall()), None)
    with pytest.raises(ValueError, match="null pointer"):
        native["begin"](None, None, None)


def test_a_compiler_that_cannot_be_run(answer: Library, tmp_path: Path) -> None:
    with pytest.raises(NoKernelsError, match=rf"^{tmp_path}/no-compiler cannot be run: .*No such file or directory"):
        compile_to(tmp_path / "library", answer, str(tmp_path / "no-compiler"))
    assert not (tmp_path / "library").exists()


def test_a_file_that_is_no_library(tmp_path: Path) -> None:
    (tmp_path / "library").write_bytes(b"no library")
    with (
        (tmp_path / "library").open("rb") as file,
        pytest.raises(NoKernelsError, match=r"^the compiled library cannot be loaded: .*"),
    ):
        open_handle(file.fileno())


def test_arguments_that_a_kernel_does_not_take() -> None:
    floats = ArrayArgument(np.float32)
    assert floats.from_param(np.ones(2, np.float32)).value
    with pytest.raises(TypeError, match="a kernel takes an array of float32, not list"):
        floats.from_param([1.0])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a kernel takes a contiguous array of float32, not float64"):
        floats.from_param(np.ones(2))
    with pytest.raises(TypeError, match="heads whose last dimension is dense, not strides"):
        HeadRows.of(torch.zeros(1, 2, 3, 4).mT)
    with pytest.raises(TypeError, match=r"a kernel takes a boolean mask, not torch\.float32"):
        AttentionMask.of(torch.zeros(1, 1, 3, 4))
