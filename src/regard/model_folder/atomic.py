"""Atomic writes: a reader, or a crash, never sees an incomplete file or folder.

A file or folder is written under a temporary name in the same folder, synced to disk, then renamed. Temporary names are
random, and created only if nothing has the name yet, so that nobody can put a link there first. A folder that replaces
another exchanges names with it; where the file system cannot do that, the old one is first moved aside, and restored if
the rename fails.

While it is written, a temporary folder is locked. The lock ends with the process, so that a folder without one was left
by a killed process and can be deleted.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from regard.model_folder.exchange import exchange

TEMPORARY = ".tmp-"
REPLACED = ".replaced-"
ABANDONED_SECONDS = 24 * 3600  # age at which a temporary folder belongs to a crashed process, where locks do not tell
DOWNLOAD_SECONDS = 7 * 24 * 3600  # for which an interrupted download can be resumed
FOR_THE_OWNER = 0o700
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


def default_cache() -> Path:
    """The folder for what Regard can compute again: $REGARD_CACHE, or ~/.cache/regard."""
    chosen = os.environ.get("REGARD_CACHE")
    return Path(chosen).expanduser() if chosen else Path.home() / ".cache" / "regard"


def make_private_folder(path: Path) -> None:
    """Create a folder of the cache, and those above it that are missing, for the owner alone."""
    for folder in (*reversed(path.parents), path):
        if not folder.is_dir():
            try:
                folder.mkdir(mode=FOR_THE_OWNER)
            except FileExistsError:
                if not folder.is_dir():  # else another process has just created it
                    raise


def temporary_name(path: Path) -> Path:
    return path.parent / f"{TEMPORARY}{path.name}-{secrets.token_hex(8)}"


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """A temporary path to write a file to: it becomes `path` when the block ends without an error.

    It lies in a temporary folder that only the owner may write to.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with locked_folder(path, FOR_THE_OWNER) as folder:
        temporary = folder / path.name
        yield temporary
        sync(temporary)
        temporary.rename(path)
        sync(path.parent)


def atomic_write(path: Path, content: bytes) -> None:
    """`path` has `content`, or its previous content if writing fails."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = temporary_name(path)
    file = temporary.open("xb")  # an error if there is anything of this name, a link too
    try:
        with file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(path)
        sync(path.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@contextmanager
def atomic_folder(path: Path, replace: bool = False) -> Iterator[Path]:
    """A temporary folder to fill: it becomes `path` when the block ends without an error, and is deleted otherwise."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with locked_folder(path, 0o777) as temporary:
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


@contextmanager
def locked_folder(path: Path, mode: int) -> Iterator[Path]:
    """A new folder with a temporary name for `path`, locked; what still has that name at the end is deleted.

    What killed processes left when they wrote `path` is deleted first.
    """
    delete_abandoned(path)
    while True:
        temporary = temporary_name(path)
        temporary.mkdir(mode=mode)
        handle = os.open(temporary, FOLDER)
        with suppress(OSError):  # a file system without locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        if temporary.exists():
            break
        os.close(handle)  # deleted between its creation and the lock
    try:
        yield temporary
    finally:
        delete(temporary)
        os.close(handle)


def delete_abandoned(path: Path) -> None:
    """Delete what killed processes left when they wrote or deleted `path`."""
    for left in path.parent.iterdir():
        if left.name.startswith(f"{TEMPORARY}{path.name}-"):
            delete_if_abandoned(left)


def delete_if_abandoned(folder: Path) -> None:
    """Delete a temporary folder that nobody is writing any more."""
    try:
        handle = os.open(folder, FOLDER)
    except OSError:  # not a folder, or just deleted
        return
    try:
        if is_free(handle, folder):
            delete(folder)
    finally:
        os.close(handle)


def is_free(handle: int, folder: Path) -> bool:
    """Lock the folder, if nobody has locked it; where the file system has no locks, its age tells."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return _last_written(folder) < time.time() - ABANDONED_SECONDS
    return True


def swap(path: Path, new: Path) -> None:
    """Replace the folder `path` by `new`: nobody finds the name missing, where the file system can exchange names."""
    if exchange(new, path):
        sync(path.parent)
        delete(new)  # which is now the old one
    else:
        swap_by_two_renames(path, new)


def swap_by_two_renames(path: Path, new: Path) -> None:
    """The same where names cannot be exchanged: `path` is missing for a moment, and comes back if anything fails."""
    old = path.parent / f"{REPLACED}{path.name}"
    delete(old)
    try:
        path.rename(old)
        new.rename(path)
    except BaseException:
        if not path.exists():
            old.rename(path)
        raise
    delete(old)


def delete(path: Path) -> None:
    """Delete a folder, or a link and not the folder that it leads to; what cannot be deleted stays."""
    if path.is_symlink():
        path.unlink(missing_ok=True)
    else:
        shutil.rmtree(path, ignore_errors=True)


def remove_folder(path: Path) -> None:
    """Delete a folder; it is renamed first, so that no reader finds it incomplete under its name."""
    doomed = temporary_name(path)
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
            delete(old)
        else:
            old.rename(place)
    for leftover in folder.glob(f"{TEMPORARY}*"):
        if leftover.is_symlink() or not leftover.is_dir():
            leftover.unlink(missing_ok=True)
        else:
            delete_if_abandoned(leftover)


def download_folder(name: str) -> Path:
    """The folder of the cache where the files of a download wait until all are there; old ones are deleted."""
    downloads = default_cache() / "downloads"
    make_private_folder(downloads)
    for folder in downloads.iterdir():
        if _last_written(folder) < time.time() - DOWNLOAD_SECONDS:
            delete(folder)
    make_private_folder(downloads / name)
    return downloads / name


def temporary_cache_folder(final: Path) -> Path:
    """A new folder for a cache entry, which `publish_folder` renames; several processes may write the same entry.

    Only the owner may read or write it. Folders that crashed processes left in the cache are deleted.
    """
    make_private_folder(final.parent)
    for left in final.parent.glob(".*"):
        if left.is_dir() and _last_written(left) < time.time() - ABANDONED_SECONDS:
            delete(left)
    folder = temporary_name(final)
    folder.mkdir(mode=FOR_THE_OWNER)
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
