"""A loaded library of kernels: its structures are compared with those of bindings.py, its functions get their types.

It does not import torch: trial.py is quick to start.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard.kernels.bindings import Library

# `Status` of boundary.h: the exception that Python raises for it.
STATUS_ERRORS = {1: MemoryError, 2: IndexError, 3: ValueError}


class NoKernelsError(Exception):
    """The kernels are not available; the message says why."""


class RefusedLibraryError(NoKernelsError):
    """A library does not match bindings.py."""


class NativeLibrary:
    """A loaded library whose structures have been checked: `library["name"](…)` calls `regard_name`.

    `not_stored` says why it had to be compiled for this process alone; it is empty for one from the cache. `build` is
    its fingerprint, which checkpoints record; of a library that is only tried it is empty.
    """

    def __init__(self, compiled: ctypes.CDLL, expected: Library, not_stored: str = "", build: str = "") -> None:
        check_layouts(compiled, expected_layouts(expected))
        self.not_stored, self.build = not_stored, build
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


def open_handle(handle: int) -> ctypes.CDLL:
    """Load the library that is open as this file, and no other: whatever its name has come to mean since.

    The dynamic linker takes two libraries of one name for the same, so the handle must stay open.
    """
    try:
        return ctypes.CDLL(f"/proc/self/fd/{handle}")
    except OSError as error:
        raise NoKernelsError(f"the compiled library cannot be loaded: {error}") from None


def find(compiled: ctypes.CDLL, name: str) -> Any:
    try:
        return getattr(compiled, name)
    except AttributeError:
        raise RefusedLibraryError(f"the compiled library has no function {name}") from None


def layout(structure: type[ctypes.Structure]) -> list[int]:
    """Size, then offset and size of every field, as EXPORT_LAYOUT of boundary.h lists them."""
    fields = [getattr(structure, description[0]) for description in structure._fields_]
    return [ctypes.sizeof(structure), *(number for field in fields for number in (field.offset, field.size))]


def expected_layouts(expected: Library) -> dict[str, list[int]]:
    return {structure.__name__: layout(structure) for structure in expected.structures}


def check_layouts(compiled: ctypes.CDLL, expected: Mapping[str, list[int]]) -> None:
    """Refuse a library that has another layout of a structure than ctypes."""
    for name, ours in expected.items():
        ask = find(compiled, f"regard_layout_{name}")
        ask.restype, ask.argtypes = ctypes.c_int64, (ctypes.POINTER(ctypes.POINTER(ctypes.c_int64)),)
        numbers = ctypes.POINTER(ctypes.c_int64)()
        count = ask(ctypes.byref(numbers))
        if (theirs := numbers[:count]) != ours:
            raise RefusedLibraryError(
                f"the structure {name} has another layout in C++ than in Python: "
                f"size, offsets and sizes of the fields are {theirs} and {ours}"
            )
