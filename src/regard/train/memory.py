"""Keep freed memory for the next step.

A training step frees and takes the same few hundred megabytes again and again. glibc hands large blocks back to
the system each time, and the kernel clears every page anew before it can be written. Told to keep them, it reuses
the same pages.
"""

from __future__ import annotations

import ctypes
import sys

M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_MAX = -1, -2, -4


def keep_freed_memory() -> bool:
    """Tell the C library; False where it is not glibc."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except AttributeError:
        return False
    trim, pad, maps = mallopt(M_TRIM_THRESHOLD, 2**31 - 1), mallopt(M_TOP_PAD, 64 << 20), mallopt(M_MMAP_MAX, 0)
    return bool(trim and pad and maps)
