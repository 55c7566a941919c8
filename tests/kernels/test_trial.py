"""A library that crashes or computes wrongly is found out in a child process, and is neither stored nor loaded."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from regard.kernels.bindings import ENGINE, Library
from regard.kernels.compiler import find_compiler, fingerprint
from regard.kernels.loader import NoKernelsError, library, load
from regard.kernels.self_test import compare
from regard.kernels.store import kernels_folder, open_library
from regard.kernels.training import MEMORY, TRAINING
from regard.kernels.trial import try_in_child

FAILURES = {
    "__builtin_trap();": "ended by SIGILL",
    "*static_cast<volatile int*>(nullptr) = 1;": "ended by SIGSEGV",
    "_exit(7);": "ended with 7",
}


@pytest.mark.parametrize("what", FAILURES)
def test_a_library_that_ends_its_process_is_refused(answer: Library, cache: Path, what: str) -> None:
    text = answer.source.read_text()
    answer.source.write_text(f"{text}#include <unistd.h>\n__attribute__((constructor)) void begin() {{ {what} }}\n")
    with pytest.raises(NoKernelsError, match=f"fails its self-test: the child process .*{FAILURES[what]}"):
        load(answer)
    assert list(cache.iterdir()) == []


@pytest.mark.slow  # it compiles training.cpp
def test_a_library_that_computes_wrongly_is_refused(cache: Path, tmp_path: Path) -> None:
    """training.cpp whose int8 product writes nothing but one number."""
    source = tmp_path / "training.cpp"
    text = TRAINING.source.read_text("utf-8")
    wrong = text.replace("multiply_packed(*left, *right, bias, add, out);", "*out = 1.0f;")
    assert wrong != text
    # Without optimisation, since it need not be fast.
    source.write_text(wrong, "utf-8")
    wrong_library = Library(source, TRAINING.functions, TRAINING.structures, flags=("-O0",))
    with pytest.raises(NoKernelsError, match=r"fails its self-test: an int8 product differs by .* expected result"):
        load(wrong_library)
    assert list(cache.iterdir()) == []


@pytest.mark.parametrize("whole", [TRAINING, ENGINE, MEMORY])
def test_the_libraries_of_the_package_pass(whole: Library) -> None:
    assert library(whole) is not None, "this test needs a C++ compiler"
    handle = open_library(kernels_folder(), fingerprint(whole, find_compiler()))
    assert handle is not None
    try:
        try_in_child(handle, whole)
    finally:
        os.close(handle)


@pytest.mark.parametrize("wrong", [1.1, float("nan"), float("inf")])
def test_a_wrong_number_is_a_failure(wrong: float) -> None:
    compare("a product", np.array([1.0, 2.05]), np.array([1.0, 2.0]), 0.05)
    with pytest.raises(NoKernelsError, match=r"a product differs by .* from the expected result, of at most 2"):
        compare("a product", np.array([wrong, 2.0]), np.array([1.0, 2.0]), 0.04)
