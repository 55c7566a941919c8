"""Writing so that a reader, or a crash, never sees half of it.

A file or folder is written under a temporary name beside its place, synced to the disk, then renamed.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

TEMPORARY = ".tmp-"


@contextmanager
def atomic_folder(path: Path, replace: bool = False) -> Iterator[Path]:
    """A folder to fill: it appears at `path` when the block ends well, and leaves nothing when it does not."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.parent / f"{TEMPORARY}{path.name}-{os.getpid()}"
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir()
    try:
        yield temporary
        for file in temporary.rglob("*"):
            sync(file)
        sync(temporary)
        if replace and path.exists():
            old = path.parent / f"{TEMPORARY}old-{path.name}-{os.getpid()}"
            path.rename(old)
            temporary.rename(path)
            shutil.rmtree(old)
        else:
            temporary.rename(path)
        sync(path.parent)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def atomic_write(path: Path, content: bytes) -> None:
    """`path` holds `content`, or what it held before."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.parent / f"{TEMPORARY}{path.name}-{os.getpid()}"
    try:
        temporary.write_bytes(content)
        sync(temporary)
        temporary.rename(path)
        sync(path.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def sync(path: Path) -> None:
    """Have the disk hold what was written; a folder is synced for the names in it."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def remove_leftovers(folder: Path) -> None:
    """Delete what a killed process had begun to write in `folder`."""
    for leftover in folder.glob(f"{TEMPORARY}*"):
        if leftover.is_dir():
            shutil.rmtree(leftover, ignore_errors=True)
        else:
            leftover.unlink(missing_ok=True)
