"""The C++ kernels: a platform wheel has the engine's (prebuilt.py); others are compiled once per machine, stored in the
cache, checked and loaded on first use.

Without them everything still works: `library()` is None, a warning in the log says why, and every caller has a fallback
(bindings.py lists them). `REGARD_NATIVE=0` switches the kernels off. Compiling is logged, and the command prints it.

A new library is first tried in a child process (trial.py). Where nothing can be stored, or what is stored could have
been written by somebody else, it is compiled into a temporary folder for this process alone. A library is refused if a
structure or a function is not as bindings.py has it.
"""

from __future__ import annotations

import ctypes
import functools
import logging
import os
import tempfile
from pathlib import Path

from regard.kernels import prebuilt, store
from regard.kernels.bindings import Library
from regard.kernels.native_library import NativeLibrary, NoKernelsError, RefusedLibraryError, open_handle
from regard.kernels.prebuilt import DamagedPackageError, find_prebuilt

__all__ = ["NativeLibrary", "NoKernelsError", "RefusedLibraryError", "library", "load"]

LOG = logging.getLogger(__name__)
# Open files of loaded libraries, by device and inode, which must stay open (native_library.open_handle).
_open: dict[tuple[int, int], int] = {}
# Those that are not stored, by fingerprint, and why.
_for_this_process: dict[str, tuple[int, str]] = {}


@functools.cache
def library(wanted: Library) -> NativeLibrary | None:
    """The compiled kernels, or None where they are not available: the caller then takes its fallback."""
    try:
        return load(wanted)
    except NoKernelsError as error:
        warn_once(f"the C++ kernels of {wanted.source.name} are not used, and Regard is slower without them: {error}")
        return None


@functools.cache
def warn_once(message: str) -> None:
    LOG.warning("%s", message)


def load(wanted: Library) -> NativeLibrary:
    """The compiled kernels: those of the package, or else compiled now if they are not in the cache."""
    if os.environ.get("REGARD_NATIVE") == "0":
        raise NoKernelsError("the environment variable REGARD_NATIVE is 0")
    return load_prebuilt(wanted) or load_compiled(wanted)


def load_prebuilt(wanted: Library) -> NativeLibrary | None:
    """The library that came with the package; None where there is none for this CPU, or where it is damaged."""
    try:
        found = find_prebuilt(wanted.source, prebuilt.FOLDER)
    except DamagedPackageError as error:
        warn_once(str(error))
        return None
    if found is None:
        return None
    path, checksum = found
    try:
        return NativeLibrary(ctypes.CDLL(str(path)), wanted, build=f"{path.stem} {checksum[:24]}")
    except (OSError, RefusedLibraryError) as error:  # made for another C library, say
        warn_once(f"{path} is not used: {error}")
        return None


def load_compiled(wanted: Library) -> NativeLibrary:
    """The library from the cache, compiled now if it is not there."""
    from regard.kernels.compiler import find_compiler, fingerprint  # a platform wheel needs none of this

    compiler = find_compiler()
    key = fingerprint(wanted, compiler)
    handle, not_stored = stored(wanted, key, compiler)
    return NativeLibrary(open_handle(hold(handle)), wanted, not_stored, key)


def hold(handle: int) -> int:
    """The same file's handle that was opened first, and will never be closed."""
    status = os.fstat(handle)
    first = _open.setdefault((status.st_dev, status.st_ino), handle)
    if first != handle:
        os.close(handle)
    return first


def stored(wanted: Library, key: str, compiler: str) -> tuple[int, str]:
    """A handle of the library, from the cache or compiled now; where it could not be stored, why."""
    if key in _for_this_process:
        return _for_this_process[key]
    try:
        folder = store.kernels_folder()
        store.check_cache()
        return from_cache(wanted, folder, key, compiler), ""
    except (store.UnsafeError, store.DamagedError) as error:
        reason = str(error)
    except (OSError, RuntimeError) as error:  # RuntimeError: there is no home folder
        reason = f"nothing can be stored there: {error}"
    warn_once(
        f"the cache of compiled kernels is not used: {reason}. "
        "Until this is mended they are compiled into a temporary folder each time, which takes some ten seconds"
    )
    try:
        with tempfile.TemporaryDirectory(prefix="regard-kernels-") as temporary:
            handle = build(wanted, Path(temporary), key, compiler)
    except (OSError, store.UnsafeError) as error:
        raise NoKernelsError(
            f"they cannot be stored, neither in the cache ({reason}) nor in a temporary folder ({error})"
        ) from None
    _for_this_process[key] = hold(handle), reason
    return _for_this_process[key]


def from_cache(wanted: Library, folder: Path, key: str, compiler: str) -> int:
    try:
        handle = store.open_library(folder, key)
    except store.DamagedError as error:
        LOG.warning("%s. It is deleted and compiled again", error)
        store.remove_library(folder, key)
        handle = None
    return build(wanted, folder, key, compiler) if handle is None else handle


def build(wanted: Library, folder: Path, key: str, compiler: str) -> int:
    """Compile, try and store a library in this folder."""
    from regard.kernels.compiler import compile_to
    from regard.kernels.trial import try_in_child

    def make(path: Path) -> None:
        LOG.info("compiling %s for this machine, once: some ten seconds", wanted.source.name)
        compile_to(path, wanted, compiler)

    return store.add_library(folder, key, make, lambda handle: try_in_child(handle, wanted))
