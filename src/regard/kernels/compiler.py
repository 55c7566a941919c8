"""Compile a source file of the kernels, and name what the result depends on."""

from __future__ import annotations

import errno
import functools
import hashlib
import os
import platform
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from regard.kernels.instruction_sets import native_flags
from regard.kernels.native_library import NoKernelsError
from regard.processes import child_environment

if TYPE_CHECKING:
    from regard.kernels.bindings import Library

HEADERS = Path(__file__).parent
# Not -ffast-math: masks need infinities. These let sums be vectorised.
FLAGS = (
    *("-std=c++17", "-O3", "-fopenmp-simd", "-shared", "-fPIC"),
    *("-fno-math-errno", "-fno-trapping-math", "-fassociative-math", "-fno-signed-zeros"),
    "-Wno-psabi",  # no vector crosses the boundary of a library, so their calling convention does not matter
)
STORAGE_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EIO, errno.EFBIG)


def find_compiler() -> str:
    compiler = next(filter(None, map(shutil.which, (os.environ.get("CXX", "g++"), "c++", "clang++"))), None)
    if compiler is None:
        raise NoKernelsError("they need a C++ compiler such as g++: install one")
    return compiler


@functools.cache
def processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return "".join(sorted({line for line in lines if line.startswith(("flags", "model name", "Features"))}))
    except OSError:
        return platform.processor()


def torch_flags() -> tuple[str, ...]:
    """How a compiler finds torch's allocators."""
    import torch

    folder = Path(torch.__file__).parent
    return "-std=c++20", f"-I{folder / 'include'}", f"-L{folder / 'lib'}", "-lc10"


def all_flags(wanted: Library) -> tuple[str, ...]:
    return FLAGS + native_flags() + wanted.flags + (torch_flags() if wanted.links_torch else ())


def fingerprint(wanted: Library, compiler: str) -> str:
    """What the binary depends on: source, compiler, the processor that it was tuned for, the C library, and torch."""
    source = wanted.source
    headers = sorted({*source.parent.glob("*.h"), *HEADERS.glob("*.h")})
    texts = [file.read_text("utf-8") for file in (source, *headers)]
    from importlib.metadata import version  # slow to import

    versions = (*platform.libc_ver(), *([version("torch")] if wanted.links_torch else ()))
    parts = [*texts, compiler, " ".join(all_flags(wanted)), platform.machine(), processor(), *versions]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:24]


def compile_to(path: Path, wanted: Library, compiler: str) -> None:
    """Raises OSError where the file cannot be stored, and NoKernelsError where the source does not compile."""
    source = str(wanted.source.absolute())
    command = [os.path.abspath(compiler), f"-I{HEADERS}", source, "-o", str(path), *all_flags(wanted)]
    try:
        # In a folder of our own: a compiler may look for files in the current one.
        done = subprocess.run(
            command,
            cwd=path.parent,
            env=child_environment(LC_ALL="C"),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
    except OSError as error:
        raise NoKernelsError(f"{compiler} cannot be run: {error}") from None
    if done.returncode == 0:
        return
    said = done.stderr.decode(errors="replace").strip()
    for code in STORAGE_ERRORS:
        if os.strerror(code) in said:
            raise OSError(code, os.strerror(code), str(path.parent))
    last = said.splitlines()[-1] if said else f"it ended with {done.returncode}"
    raise NoKernelsError(f"{compiler} cannot compile them: {last}")
