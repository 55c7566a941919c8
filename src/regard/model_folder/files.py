"""The one place that opens the files of a folder that may come from anywhere.

Only regular files are opened, and only those of the folder itself: not a device, not a FIFO (whoever reads one may wait
without end), not a link that leads out of the folder. What is read at once has a largest size.
"""

from __future__ import annotations

import hashlib
import io
import os
import stat
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from regard.config.strict_json import parse_json
from regard.errors import ConfigError, ModelFolderError

MOST_SETTINGS = 4 << 20  # bytes of config.json, SHA256SUMS, README.md
MOST_TEXT = 128 << 20  # bytes of a tokenizer's file, of an index of weights


def check_folder(path: Path, what: str = "model folder") -> None:
    """Raise a ModelFolderError where there is no folder that can be read."""
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        raise ModelFolderError(f"there is no {what} at {path}") from None
    except (OSError, ValueError) as error:
        raise ModelFolderError(f"{path} cannot be read: {reason(error)}") from None
    if not stat.S_ISDIR(mode):
        raise ModelFolderError(f"there is no {what} at {path}: it is {kind_of_file(mode)}")
    if not os.access(path, os.R_OK | os.X_OK):
        raise ModelFolderError(f"{path} cannot be read: Permission denied")


def check_name(name: str, where: Path) -> None:
    """Refuse a name that is not that of a file inside the folder."""
    parts = PurePosixPath(name).parts
    plain = bool(parts) and "/".join(parts) == name and ".." not in parts and parts[0] != "/"
    if not plain or "\\" in name or not name.isprintable():
        raise ModelFolderError(f"{where} names {name!r}, which is not a file of this folder; do not use the folder")


def has_file(folder: Path, name: str) -> bool:
    """Whether something has this name, be it a file that can be read or not."""
    return os.path.lexists(folder / name)


def open_file(folder: Path, name: str, linked: Sequence[Path] = ()) -> io.BufferedReader:
    """Open a regular file of the folder. `linked`: other folders that links in it may lead to."""
    path = folder / name
    try:
        real = Path(os.path.realpath(path, strict=True))
        roots = [Path(os.path.realpath(root)) for root in (folder, *linked)]
        if not any(real.is_relative_to(root) for root in roots):
            raise ModelFolderError(f"{path} is a link out of the folder; put the file itself there")
        handle = os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        raise ModelFolderError(f"{folder} is incomplete: {name} is missing; copy the folder again") from None
    except (OSError, ValueError) as error:
        raise ModelFolderError(f"{path} cannot be read: {reason(error)}") from None
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):
        os.close(handle)
        raise ModelFolderError(f"{path} cannot be read: it is {kind_of_file(mode)}, not a file")
    return open(handle, "rb")


def read_file(folder: Path, name: str, most: int, linked: Sequence[Path] = ()) -> bytes:
    """The contents of a file of at most so many bytes."""
    with open_file(folder, name, linked) as file:
        try:
            content = file.read(most + 1)
        except OSError as error:
            raise ModelFolderError(f"{folder / name} cannot be read: {reason(error)}") from None
    if len(content) > most:
        raise ModelFolderError(f"{folder / name} is larger than {most:,} bytes, the most that such a file may have")
    return content


def parse_file(content: bytes, path: Path) -> Any:
    """The JSON of a file that has been read."""
    try:
        return parse_json(content, str(path))
    except ConfigError as error:
        raise ModelFolderError(str(error)) from None


def digest_of(folder: Path, name: str) -> str:
    with open_file(folder, name) as file:
        try:
            return hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise ModelFolderError(f"{folder / name} cannot be read: {reason(error)}") from None


def reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def kind_of_file(mode: int) -> str:
    kinds = {stat.S_IFREG: "a file", stat.S_IFDIR: "a folder", stat.S_IFIFO: "a FIFO", stat.S_IFSOCK: "a socket"}
    return kinds.get(stat.S_IFMT(mode), "a device")
