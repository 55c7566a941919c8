"""The cache of prepared data: every entry is a folder named by a digest of everything that determines its content.

Texts take part in that name by their content: size and time of a file can stay the same while its text changes. Every
file of an entry is listed with its checksum and compared when the entry is opened. A damaged entry is set aside and
made again; what was set aside is deleted after a day (`temporary_cache_folder`).
"""

from __future__ import annotations

import hashlib
import json
import os
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from regard.errors import DataError
from regard.model_folder.atomic import cache_files
from regard.model_folder.checked_json import SUMS, DamagedFileError, check_listed, checked, read_checked

ENTRY_FILE = "entry.json"
ENTRY_FORMAT = 1
DAMAGED = ".damaged-"
# A file may change twice within one tick of the file system's clock: times more recent than this prove nothing.
RECENT_NS = 2_000_000_000

Status = tuple[int, ...]
_HASHES: dict[tuple[str, Status], str] = {}


def digest(determinants: dict[str, Any]) -> str:
    """The name of the entry that these values determine."""
    return hashlib.sha256(json.dumps(determinants, sort_keys=True).encode()).hexdigest()[:32]


def content_hash(path: Path) -> str:
    """SHA-256 of a file, computed once per process.

    It is computed again if the file's status changed: also its ctime, which the system sets at every change and no
    program can set back.
    """
    name = os.path.realpath(path)
    try:
        before, now = _status(name), time.time_ns()
        if (name, before) not in _HASHES:
            with open(name, "rb") as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
            if _status(name) != before or before[-1] > now - RECENT_NS:
                return found
            _HASHES[name, before] = found
        return _HASHES[name, before]
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from None


def _status(name: str) -> Status:
    status = os.stat(name)
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def read_entry(folder: Path) -> dict[str, bytes]:
    """The files of an entry by name; raises `DamagedFileError`."""
    content, has_checksum = read_checked(folder / ENTRY_FILE)
    if not has_checksum or content.get("format") != ENTRY_FORMAT:
        raise DamagedFileError(f"{folder / ENTRY_FILE} is damaged: it has no checksum, or is of another version")
    check_listed(folder, content.get(SUMS))
    return {name: (folder / name).read_bytes() for name in content[SUMS]}


@contextmanager
def cache_errors(folder: Path) -> Iterator[None]:
    """Turn errors of a full or read-only disk into a DataError."""
    try:
        yield
    except OSError as error:
        raise DataError(
            f"{folder} could not be written: {error.strerror or error}. Free disk space, or set REGARD_CACHE to a "
            "folder with more of it"
        ) from None


def write_entry(folder: Path, files: Mapping[str, bytes]) -> None:
    """An entry of these files, listed with their checksums."""
    sums = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    with cache_errors(folder):
        cache_files(folder, {**files, ENTRY_FILE: checked({"format": ENTRY_FORMAT, SUMS: sums})})


def set_aside(folder: Path) -> Path:
    """Rename a damaged entry, so that it is made again; returns where it is now."""
    aside = folder.parent / f"{DAMAGED}{folder.name}-{uuid.uuid4().hex[:8]}"
    try:
        folder.rename(aside)
        os.utime(aside)  # it is deleted a day from now, not a day after it was written
    except FileNotFoundError:  # another process was faster
        pass
    except OSError as error:
        raise DataError(f"{folder} is damaged and cannot be renamed ({error.strerror}); delete it") from None
    return aside
