"""A folder of finished work: every entry is a folder named by a digest of all that determined it.

An entry is written under a temporary name and renamed when it is whole, so whatever has its right name can be used,
whoever wrote it and however they ended.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import time
import uuid
from pathlib import Path
from typing import Any

ABANDONED_SECONDS = 24 * 3600


def digest(determinants: dict[str, Any]) -> str:
    """The name of the entry that these values determine."""
    return hashlib.sha256(json.dumps(determinants, sort_keys=True).encode()).hexdigest()[:32]


def temporary_folder(final: Path) -> Path:
    """A new folder beside `final`, for what is to be renamed to it; clears away what crashed runs left there."""
    final.parent.mkdir(parents=True, exist_ok=True)
    for left in final.parent.glob(".*"):
        if left.is_dir() and _last_written(left) < time.time() - ABANDONED_SECONDS:
            shutil.rmtree(left, ignore_errors=True)
    folder = final.parent / f".{final.name}.{uuid.uuid4().hex[:8]}"
    folder.mkdir()
    return folder


def _last_written(folder: Path) -> float:
    try:
        return max(path.stat().st_mtime for path in (folder, *folder.iterdir()))
    except OSError:
        return time.time()  # someone else is at work in it


def write_synced(path: Path, content: bytes) -> None:
    """Write a file and wait until the disk has it."""
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def settle(temporary: Path, final: Path) -> None:
    """Rename a finished folder to its name; one that is there already, from another process, stays."""
    try:
        temporary.rename(final)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        shutil.rmtree(temporary)
    handle = os.open(final.parent, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
