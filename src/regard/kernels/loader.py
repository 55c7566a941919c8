"""Compile, load and check the C++ kernels: once per machine, stored in the cache, loaded on first use.

Without a compiler everything still works: `library()` is None, and every caller has a fallback (bindings.py lists
them). `REGARD_NATIVE=0` switches the kernels off. Compiling is logged, and the command prints it.

A library is refused, with a warning in the log, if a structure or a function is not as bindings.py has it.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import logging
import os
import platform
import shutil
import subprocess
from pathlib import Path
from typing import Any

import torch

from regard.kernels.bindings import SUFFIXES, TRAINING, Library
from regard.model_folder.atomic import atomic_file, default_cache

HEADERS = Path(__file__).parent
# Not -ffast-math: masks need infinities. These let sums be vectorised.
FLAGS = (
    *("-std=c++17", "-O3", "-march=native", "-fopenmp", "-shared", "-fPIC"),
    *("-fno-math-errno", "-fno-trapping-math", "-fassociative-math", "-fno-signed-zeros"),
    "-Wno-psabi",  # no vector crosses the boundary of a library, so their calling convention does not matter
)
# `Status` of boundary.h: the exception that Python raises for it.
STATUS_ERRORS = {1: MemoryError, 2: IndexError, 3: ValueError}

LOG = logging.getLogger(__name__)


class NoKernelsError(Exception):
    """The kernels are not available; the message says why."""


class RefusedLibraryError(NoKernelsError):
    """A library does not match bindings.py."""


class NativeLibrary:
    """A loaded library whose structures have been checked: `library["name"](…)` calls `regard_name`."""

    def __init__(self, compiled: ctypes.CDLL, expected: Library) -> None:
        for structure in expected.structures:
            check_layout(compiled, structure)
        self.last_error = find(compiled, "regard_last_error")
        self.last_error.restype, self.last_error.argtypes = ctypes.c_char_p, ()
        self.functions = {}
        for name, arguments in expected.functions.items():
            function = find(compiled, f"regard_{name}")
            function.argtypes = arguments
            if name in expected.returning_nothing:
                function.restype = None
            else:
                function.restype, function.errcheck = ctypes.c_int32, self.check
            self.functions[name] = function

    def __getitem__(self, name: str) -> Any:
        return self.functions[name]

    def check(self, status: int, function: Any, arguments: tuple[Any, ...]) -> None:
        """Raise what a call's status means."""
        if status != 0:
            message = (self.last_error() or b"").decode(errors="replace")
            raise STATUS_ERRORS.get(status, RuntimeError)(f"{message} (in {function.__name__})")


def find(compiled: ctypes.CDLL, name: str) -> Any:
    try:
        return getattr(compiled, name)
    except AttributeError:
        raise RefusedLibraryError(f"the compiled library has no function {name}") from None


def layout(structure: type[ctypes.Structure]) -> list[int]:
    """Size, then offset and size of every field, as EXPORT_LAYOUT of boundary.h lists them."""
    fields = [getattr(structure, description[0]) for description in structure._fields_]
    return [ctypes.sizeof(structure), *(number for field in fields for number in (field.offset, field.size))]


def check_layout(compiled: ctypes.CDLL, structure: type[ctypes.Structure]) -> None:
    """Refuse a library that has another layout of a structure than ctypes."""
    ask = find(compiled, f"regard_layout_{structure.__name__}")
    ask.restype, ask.argtypes = ctypes.c_int64, (ctypes.POINTER(ctypes.POINTER(ctypes.c_int64)),)
    numbers = ctypes.POINTER(ctypes.c_int64)()
    count = ask(ctypes.byref(numbers))
    theirs, ours = numbers[:count], layout(structure)
    if theirs != ours:
        raise RefusedLibraryError(
            f"the structure {structure.__name__} has another layout in C++ than in Python: "
            f"size, offsets and sizes of the fields are {theirs} and {ours}"
        )


@functools.cache
def library(wanted: Library = TRAINING) -> NativeLibrary | None:
    """The compiled kernels, or None where they are not available: the caller then takes its fallback."""
    try:
        return load(wanted)
    except RefusedLibraryError as error:
        LOG.warning("the kernels of %s are not used: %s", wanted.source.name, error)
        return None
    except NoKernelsError:
        return None


def load(wanted: Library = TRAINING) -> NativeLibrary:
    """The compiled kernels, compiled now if they are not in the cache."""
    source, flags = wanted.source, wanted.flags
    if os.environ.get("REGARD_NATIVE") == "0":
        raise NoKernelsError("the environment variable REGARD_NATIVE is 0")
    compiler = next(filter(None, map(shutil.which, (os.environ.get("CXX", "g++"), "c++", "clang++"))), None)
    if compiler is None:
        raise NoKernelsError("they need a C++ compiler such as g++")
    try:
        path = default_cache() / "native" / f"{fingerprint(source, compiler, flags)}.so"
        if not path.exists():
            LOG.info("compiling %s for this machine, once: some ten seconds", source.name)
            compile_to(path, source, compiler, flags)
        compiled = ctypes.CDLL(str(path))
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode(errors="replace").strip().splitlines()
        raise NoKernelsError(f"{compiler} cannot compile them: {said[-1] if said else error}") from None
    except (OSError, RuntimeError) as error:  # RuntimeError: there is no home folder
        raise NoKernelsError(f"they cannot be stored in the cache: {error}") from None
    return NativeLibrary(compiled, wanted)


def fingerprint(source: Path, compiler: str, flags: tuple[str, ...] = ()) -> str:
    """What the binary depends on: source, compiler, the processor that it was tuned for, torch, the C library."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        processor = "".join(sorted({line for line in lines if line.startswith(("flags", "model name", "Features"))}))
    except OSError:
        processor = platform.processor()
    headers = sorted({*source.parent.glob("*.h"), *HEADERS.glob("*.h")})
    texts = [file.read_text("utf-8") for file in (source, *headers)]
    flags_used, versions = " ".join(FLAGS + flags), (torch.__version__, *platform.libc_ver())
    parts = [*texts, compiler, flags_used, platform.machine(), processor, *versions]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:24]


def compile_to(path: Path, source: Path, compiler: str, flags: tuple[str, ...]) -> None:
    """Compile to a temporary file, then rename: several processes or threads may do so at once."""
    with atomic_file(path) as made:
        command = [compiler, *FLAGS, f"-I{HEADERS}", str(source), "-o", str(made), *flags]
        subprocess.run(command, check=True, capture_output=True)


def kernel(name: str, dtype: torch.dtype) -> Any:
    """A function of training.cpp for numbers of this type. The caller has checked that there are kernels."""
    native = library()
    assert native is not None
    return native[f"{name}_{SUFFIXES[dtype]}"]


def random_seed() -> int:
    """A seed for a kernel's random numbers, from torch's own generator: the same torch seed gives the same masks."""
    return int(torch.randint(2**62, ()))
