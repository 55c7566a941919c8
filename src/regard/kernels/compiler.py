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

import torch

from regard.kernels.native_library import NoKernelsError
from regard.processes import child_environment

HEADERS = Path(__file__).parent
# Not -ffast-math: masks need infinities. These let sums be vectorised.
FLAGS = (
    *("-std=c++17", "-O3", "-march=native", "-fopenmp", "-shared", "-fPIC"),
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


def fingerprint(source: Path, compiler: str, flags: tuple[str, ...] = ()) -> str:
    """What the binary depends on: source, compiler, the processor that it was tuned for, torch, the C library."""
    headers = sorted({*source.parent.glob("*.h"), *HEADERS.glob("*.h")})
    texts = [file.read_text("utf-8") for file in (source, *headers)]
    flags_used, versions = " ".join(FLAGS + flags), (torch.__version__, *platform.libc_ver())
    parts = [*texts, compiler, flags_used, platform.machine(), processor(), *versions]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:24]


def compile_to(path: Path, source: Path, compiler: str, flags: tuple[str, ...]) -> None:
    """Raises OSError where the file cannot be stored, and NoKernelsError where the source does not compile."""
    command = [os.path.abspath(compiler), *FLAGS, f"-I{HEADERS}", str(source.absolute()), "-o", str(path), *flags]
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
