"""Keep freed memory for the next step.

A training step frees and takes the same few hundred megabytes again and again. Handed back to the system, every page
is cleared anew before it can be written; so they are kept. memory.cpp has a region for all large tensors; where it
cannot be compiled, glibc is told to keep what is freed, which gets gaps and grows with batches of ever new shapes.

What else grows with new shapes is oneDNN's code: it compiles some 400 KB for a product of sizes that it has not seen,
and keeps a thousand of them. A step has a few dozen.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from pathlib import Path

import torch

from regard.kernels.loader import library

SOURCE = Path(__file__).with_suffix(".cpp")
PRODUCTS = 128  # whose code is kept; compiling one anew takes a millisecond
CACHES = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")  # oneDNN's own, and PyTorch's in front of it
M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_MAX = -1, -2, -4


def keep_freed_memory(products: int = PRODUCTS) -> bool:
    """From now on, in this process, which best has multiplied nothing yet; False where it cannot be done."""
    for name in CACHES:
        os.environ.setdefault(name, str(products))
    if (kept := region()) is None:
        return keep_heap()
    kept.regard_keep_memory(ctypes.c_bool(True))
    return True


@functools.cache
def region() -> ctypes.CDLL | None:
    """memory.cpp with its region reserved: as many addresses as the machine has memory, most of which stay unused."""
    native = library(SOURCE, torch_flags())
    if native is None:
        return None
    native.regard_reserve.restype = ctypes.c_bool
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return native if native.regard_reserve(ctypes.c_size_t(memory)) else None


def torch_flags() -> tuple[str, ...]:
    """How a compiler finds torch's allocators."""
    folder = Path(torch.__file__).parent
    return "-std=c++20", f"-I{folder / 'include'}", f"-L{folder / 'lib'}", "-lc10"


def keep_heap() -> bool:
    """Tell the C library; False where it is not glibc."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except AttributeError:
        return False
    trim, pad, maps = mallopt(M_TRIM_THRESHOLD, 2**31 - 1), mallopt(M_TOP_PAD, 64 << 20), mallopt(M_MMAP_MAX, 0)
    return bool(trim and pad and maps)
