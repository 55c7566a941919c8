"""C++ kernels: compiled once for this machine, kept in the cache, loaded when first needed.

Without a compiler everything still works: `library()` is None, and each caller has a PyTorch twin to fall back on
(int8.py has none, and is not asked).
`REGARD_NATIVE=0` switches the kernels off. That something is being compiled is logged, and the command says it.
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
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.model_folder.atomic import TEMPORARY, default_cache, sync

SUFFIXES = {torch.float32: "float32", torch.bfloat16: "bfloat16"}  # of the kernels' names
SOURCE = Path(__file__).with_name("training.cpp")
HEADER = SOURCE.with_name("common.h")
# Not -ffast-math: masks need infinities. These let sums be vectorised.
FLAGS = (
    *("-std=c++17", "-O3", "-march=native", "-fopenmp", "-shared", "-fPIC"),
    *("-fno-math-errno", "-fno-trapping-math", "-fassociative-math", "-fno-signed-zeros"),
)

LOG = logging.getLogger(__name__)


class NoKernelsError(Exception):
    """They cannot be had; the message says why."""


@functools.cache
def library(source: Path = SOURCE, flags: tuple[str, ...] = ()) -> ctypes.CDLL | None:
    """The compiled kernels of a file, or None where they cannot be had. `flags`: more of them for the compiler."""
    try:
        return load(source, flags)
    except NoKernelsError:
        return None


def load(source: Path = SOURCE, flags: tuple[str, ...] = ()) -> ctypes.CDLL:
    """The compiled kernels of a file, compiled now if they have not been."""
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
        return ctypes.CDLL(str(path))
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode(errors="replace").strip().splitlines()
        raise NoKernelsError(f"{compiler} cannot compile them: {said[-1] if said else error}") from None
    except (OSError, RuntimeError) as error:  # RuntimeError: nobody knows where home is
        raise NoKernelsError(f"they cannot be kept in the cache: {error}") from None


def fingerprint(source: Path, compiler: str, flags: tuple[str, ...] = ()) -> str:
    """What the binary depends on: source, compiler, the processor that it was tuned for, torch, the C library."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        processor = "".join(sorted({line for line in lines if line.startswith(("flags", "model name", "Features"))}))
    except OSError:
        processor = platform.processor()
    headers = sorted({*source.parent.glob("*.h"), *HEADER.parent.glob("*.h")})
    texts = [file.read_text("utf-8") for file in (source, *headers)]
    flags_used, versions = " ".join(FLAGS + flags), (torch.__version__, *platform.libc_ver())
    parts = [*texts, compiler, flags_used, platform.machine(), processor, *versions]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:24]


def compile_to(path: Path, source: Path, compiler: str, flags: tuple[str, ...]) -> None:
    """Compile in a folder of one's own, then rename: two at once, processes or threads, do no harm."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=TEMPORARY, dir=path.parent) as folder:
        made = Path(folder) / path.name
        command = [compiler, *FLAGS, f"-I{HEADER.parent}", str(source), "-o", str(made), *flags]
        subprocess.run(command, check=True, capture_output=True)
        sync(made)  # half of it under its name would never be compiled again
        made.rename(path)


class Strided(ctypes.Structure):
    """Where a tensor stands, and how far its neighbours are apart in three of its dimensions."""

    _fields_ = (("data", ctypes.c_void_p), ("strides", ctypes.c_int64 * 3))


def head_rows(x_BHLK: Tensor) -> Strided:
    """`HeadRows` of native.h. Each head's numbers must lie together."""
    assert x_BHLK.stride(3) == 1
    return Strided(x_BHLK.data_ptr(), x_BHLK.stride()[:3])


def kernel(name: str, dtype: torch.dtype) -> Any:
    """A function of native.cpp, for numbers of this type; who asks knows that there are kernels."""
    native = library()
    assert native is not None
    return native[f"regard_{name}_{SUFFIXES[dtype]}"]


def draw_seed() -> int:
    """For a kernel's dropout, from torch's own generator: the same seed gives the same masks."""
    return int(torch.randint(2**62, ()))


def pointer(tensor: Tensor) -> ctypes.c_void_p:
    """Where a tensor's numbers are. They must lie together."""
    assert tensor.is_contiguous()
    return ctypes.c_void_p(tensor.data_ptr())
