"""Keep freed memory in the process for the next training step.

A training step frees and allocates the same few hundred megabytes again and again. If they go back to the system, every
page is cleared before it can be written again. memory.cpp has a region for all large tensors; where it cannot be
compiled, glibc is told not to return freed memory, but its heap fragments and grows with batches of new shapes.

oneDNN's compiled code also grows with new shapes: some 400 KB for each product of sizes that it has not seen, of which
it caches a thousand. A step needs a few dozen.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys

from regard.kernels.loader import NativeLibrary, library
from regard.kernels.training import MEMORY

PRODUCTS = 128  # whose code is cached; compiling one again takes a millisecond
CACHES = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")  # oneDNN's own, and PyTorch's in front of it
M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_MAX = -1, -2, -4


def keep_freed_memory(products: int = PRODUCTS) -> bool:
    """Call it before the first matrix product of the process. False where this is not supported."""
    for name in CACHES:
        os.environ.setdefault(name, str(products))
    if (native := region()) is None:
        return keep_heap()
    native["use_region"](True)
    return True


@functools.cache
def region() -> NativeLibrary | None:
    """memory.cpp with its region reserved: as many addresses as the machine has memory, most of which stay unused."""
    native = library(MEMORY)
    if native is None:
        return None
    try:
        native["reserve_region"](os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (MemoryError, RuntimeError):  # a limit on addresses, say
        return None
    return native


def keep_heap() -> bool:
    """Tell the C library not to return freed memory; False where it is not glibc."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except AttributeError:
        return False
    trim, pad, maps = mallopt(M_TRIM_THRESHOLD, 2**31 - 1), mallopt(M_TOP_PAD, 64 << 20), mallopt(M_MMAP_MAX, 0)
    return bool(trim and pad and maps)
