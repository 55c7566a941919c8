"""Writing so that a reader, or a crash, never sees half of it.

A file or folder is written under a temporary name beside its place, synced to the disk, then renamed. A folder
cannot be renamed over another, so the one that it replaces is first moved aside, and comes back if that is as far
as it got.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

TEMPORARY = ".tmp-"


def default_cache() -> Path:
    """Where Regard keeps what it can make again: $REGARD_CACHE, or ~/.cache/regard."""
    chosen = os.environ.get("REGARD_CACHE")
    return Path(chosen).expanduser() if chosen else Path.home() / ".cache" / "regard"


REPLACED = ".replaced-"


@contextmanager
def atomic_folder(path: Path, replace: bool = False) -> Iterator[Path]:
    """A folder to fill: it appears at `path` when the block ends well, and leaves nothing when it does not."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.parent / f"{TEMPORARY}{path.name}-{os.getpid()}"
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir()
    try:
        yield temporary
        usual = temporary.stat().st_mode & 0o666  # as the umask has it; safetensors writes for the owner alone
        for file in temporary.rglob("*"):
            if file.is_file():
                file.chmod(usual)
            sync(file)
        sync(temporary)
        if replace and path.exists():
            swap(path, temporary)
        else:
            temporary.rename(path)
        sync(path.parent)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def swap(path: Path, new: Path) -> None:
    """`new` takes the place of the folder `path`."""
    old = path.parent / f"{REPLACED}{path.name}"
    shutil.rmtree(old, ignore_errors=True)
    try:
        path.rename(old)
        new.rename(path)
    except BaseException:
        if not path.exists():
            old.rename(path)
        raise
    shutil.rmtree(old, ignore_errors=True)


def remove_folder(path: Path) -> None:
    """Delete a folder; nobody finds half of it under its name."""
    doomed = path.parent / f"{TEMPORARY}{path.name}-{os.getpid()}"
    path.rename(doomed)
    shutil.rmtree(doomed)


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
    """Delete what a killed process had begun to write in `folder`, and put back what it had moved aside."""
    for old in folder.glob(f"{REPLACED}*"):
        place = folder / old.name.removeprefix(REPLACED)
        if place.exists():
            shutil.rmtree(old, ignore_errors=True)
        else:
            old.rename(place)
    for leftover in folder.glob(f"{TEMPORARY}*"):
        if leftover.is_dir():
            shutil.rmtree(leftover, ignore_errors=True)
        else:
            leftover.unlink(missing_ok=True)
