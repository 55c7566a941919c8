"""Atomic writes: a reader, or a crash, never sees an incomplete file or folder.

A file or folder is written under a temporary name in the same folder, synced to disk, then renamed. A folder cannot be
renamed over another, so the one that it replaces is first moved aside, and restored if the rename fails.
"""

from __future__ import annotations

import errno
import os
import shutil
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

TEMPORARY = ".tmp-"
REPLACED = ".replaced-"
ABANDONED_SECONDS = 24 * 3600  # age at which a temporary folder in a cache belongs to a crashed process


def default_cache() -> Path:
    """The folder for what Regard can compute again: $REGARD_CACHE, or ~/.cache/regard."""
    chosen = os.environ.get("REGARD_CACHE")
    return Path(chosen).expanduser() if chosen else Path.home() / ".cache" / "regard"


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """A temporary path to write a file to: it becomes `path` when the block ends without an error."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.parent / f"{TEMPORARY}{path.name}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
    try:
        yield temporary
        sync(temporary)
        temporary.rename(path)
        sync(path.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def atomic_write(path: Path, content: bytes) -> None:
    """`path` has `content`, or its previous content if writing fails."""
    with atomic_file(path) as temporary:
        temporary.write_bytes(content)


@contextmanager
def atomic_folder(path: Path, replace: bool = False) -> Iterator[Path]:
    """A temporary folder to fill: it becomes `path` when the block ends without an error, and is deleted otherwise."""
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
    """Replace the folder `path` by `new`."""
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
    """Delete a folder; it is renamed first, so that no reader finds it incomplete under its name."""
    doomed = path.parent / f"{TEMPORARY}{path.name}-{os.getpid()}"
    path.rename(doomed)
    shutil.rmtree(doomed)


def sync(path: Path) -> None:
    """Wait until the disk has what was written; syncing a folder stores the names in it."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def remove_leftovers(folder: Path) -> None:
    """Delete the temporary files of killed processes in `folder`, and restore what they had moved aside."""
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


def temporary_cache_folder(final: Path) -> Path:
    """A new folder for a cache entry, which `publish_folder` renames; several processes may write the same entry.

    Folders that crashed processes left in the cache are deleted.
    """
    final.parent.mkdir(parents=True, exist_ok=True)
    for left in final.parent.glob(".*"):
        if left.is_dir() and _last_written(left) < time.time() - ABANDONED_SECONDS:
            shutil.rmtree(left, ignore_errors=True)
    folder = final.parent / f"{TEMPORARY}{final.name}-{uuid.uuid4().hex[:8]}"
    folder.mkdir()
    return folder


def _last_written(folder: Path) -> float:
    try:
        return max(path.stat().st_mtime for path in (folder, *folder.iterdir()))
    except OSError:
        return time.time()  # another process is writing or deleting it


def publish_folder(temporary: Path, final: Path) -> None:
    """Rename a finished cache entry; if another process has already published it, keep that one."""
    try:
        temporary.rename(final)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        shutil.rmtree(temporary)
    sync(final.parent)


def write_synced(path: Path, content: bytes) -> None:
    """Write a file and wait until the disk has it."""
    path.write_bytes(content)
    sync(path)


def cache_files(final: Path, files: Mapping[str, bytes]) -> None:
    """Write a cache entry that consists of these files."""
    temporary = temporary_cache_folder(final)
    for name, content in files.items():
        write_synced(temporary / name, content)
    publish_folder(temporary, final)
