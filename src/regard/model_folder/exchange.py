"""Exchange two names in one step, where the system and the file system can: renameat2 of Linux (2014)."""

from __future__ import annotations

import ctypes
import functools
import os
from pathlib import Path
from typing import Any

AT_FDCWD, RENAME_EXCHANGE = -100, 2


@functools.cache
def renameat2() -> Any:
    """The function of the C library, or None where it has none."""
    try:
        found = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return None
    found.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
    return found


def exchange(one: Path, other: Path) -> bool:
    """Each gets the name of the other, and neither name is missing for a moment; False where this is not possible."""
    function = renameat2()
    if function is None:
        return False
    return bool(function(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), RENAME_EXCHANGE) == 0)
