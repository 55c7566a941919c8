"""The folder of the compiled kernels: what is loaded from it was written by this user, and is not damaged.

An entry is a folder named by the fingerprint of what it was compiled from (compiler.py). It holds the library and a
manifest with the library's SHA-256. Folders and files must belong to this user or to root, and nobody else may write to
them; links are not followed. A file is opened once: what was checked is what is loaded, even if its name comes to mean
another file in the meantime.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from regard.model_folder.atomic import (
    default_cache,
    make_private_folder,
    publish_folder,
    remove_folder,
    sync,
    temporary_cache_folder,
    write_synced,
)

VARIABLE = "REGARD_KERNELS"
LIBRARY, MANIFEST = "library.so", "manifest.json"
FORMAT_VERSION = 1
LARGEST = 256 << 20  # bytes; what is larger is no library of ours
READ, FOLDER = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, os.O_DIRECTORY  # a pipe must not block


class UnsafeError(Exception):
    """Somebody else could have written here; the message says what to do."""


class DamagedError(Exception):
    """An entry is incomplete or has changed since it was written."""


def kernels_folder() -> Path:
    """$REGARD_KERNELS, or the folder `native` of the cache."""
    chosen = os.environ.get(VARIABLE)
    return Path(chosen).expanduser() if chosen else default_cache() / "native"


def check_cache() -> None:
    """Raise if somebody else may write to the cache, where `native` lies."""
    cache = default_cache().resolve()  # the user may have made ~/.cache/regard a link
    if not os.environ.get(VARIABLE) and cache.exists():
        with opened(cache, FOLDER):
            pass


@contextmanager
def opened(path: Path, kind: int = 0, within: int | None = None) -> Iterator[int]:
    """A file or a folder that only its owner can have written; `within`: `path.name` in this open folder."""
    handle = open_private(path, kind, within)
    try:
        yield handle
    finally:
        os.close(handle)


def open_private(path: Path, kind: int = 0, within: int | None = None) -> int:
    place = path if within is None else path.name
    try:
        handle = os.open(place, READ | kind, dir_fd=within)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR) and path.is_symlink():
            raise UnsafeError(f"{path} is a symbolic link, which may lead anywhere: delete it") from None
        raise
    try:
        check_private(path, os.fstat(handle), bool(kind & FOLDER))
    except BaseException:
        os.close(handle)
        raise
    return handle


def check_private(path: Path, status: os.stat_result, folder: bool) -> None:
    if not folder and not stat.S_ISREG(status.st_mode):
        raise UnsafeError(f"{path} is not a regular file: delete it")
    if status.st_uid not in (os.geteuid(), 0):
        raise UnsafeError(
            f"{path} belongs to another user (number {status.st_uid}): "
            f"choose a folder of your own with REGARD_CACHE or {VARIABLE}"
        )
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise UnsafeError(f"others may write to {path} (mode {stat.S_IMODE(status.st_mode):o}): chmod go-w {path}")


def open_library(folder: Path, key: str) -> int | None:
    """A handle of the library of this key, which the caller closes; None if it is not stored."""
    try:
        with opened(folder, FOLDER) as outer, opened(folder / key, FOLDER, outer) as entry:
            return open_entry(folder / key, entry, key)
    except FileNotFoundError:
        return None


def open_entry(place: Path, entry: int, key: str) -> int:
    """The library of an open entry, whose content is as its manifest has it."""
    try:
        with opened(place / MANIFEST, within=entry) as file:
            manifest = read_whole(file)
        handle = open_private(place / LIBRARY, within=entry)
    except FileNotFoundError as error:
        raise DamagedError(f"{place} is incomplete: it has no {Path(error.filename).name}") from None
    try:
        if manifest != describe(key, read_whole(handle)):
            raise DamagedError(f"{place / LIBRARY} is damaged: it is not as {MANIFEST} beside it has it")
    except BaseException:
        os.close(handle)
        raise
    return handle


def read_whole(handle: int) -> bytes:
    with os.fdopen(handle, "rb", closefd=False) as file:
        return file.read(LARGEST)


def describe(key: str, library: bytes) -> bytes:
    """The manifest of a library: there is one text for it only, so that any change shows."""
    content = {"format_version": FORMAT_VERSION, "key": key, "sha256": hashlib.sha256(library).hexdigest()}
    return (json.dumps(content, indent=2) + "\n").encode()


def add_library(folder: Path, key: str, make: Callable[[Path], None], trial: Callable[[int], None]) -> int:
    """Store what `make` writes to a path, after a successful trial of the file; returns its handle."""
    make_private_folder(folder)
    with opened(folder, FOLDER):
        pass
    temporary = temporary_cache_folder(folder / key)
    try:
        make(temporary / LIBRARY)
        (temporary / LIBRARY).chmod(0o600)
        with opened(temporary / LIBRARY) as handle:
            trial(handle)
            manifest = describe(key, read_whole(handle))
        sync(temporary / LIBRARY)
        write_synced(temporary / MANIFEST, manifest)
        (temporary / MANIFEST).chmod(0o600)
        publish_folder(temporary, folder / key)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    added = open_library(folder, key)
    if added is None:
        raise FileNotFoundError(errno.ENOENT, "another process has deleted it", str(folder / key))
    return added


def remove_library(folder: Path, key: str) -> None:
    with suppress(FileNotFoundError):  # another process was faster
        remove_folder(folder / key)
