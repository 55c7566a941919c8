"""Download files so that nothing incomplete is ever taken for a whole file.

A file grows under `NAME.part`. It gets its name when its size and checksum are right; a part that an interruption left
is resumed where it ends, also by a later process. What the server sends beyond the expected size is refused at once.
"""

from __future__ import annotations

import hashlib
import http.client
import re
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from regard.errors import NetworkError
from regard.model_folder.atomic import sync
from regard.network.request import open_url

Algorithm = Literal["sha256", "git-sha1"]
Progress = Callable[[int], None]  # bytes that have arrived, of the whole file

CHUNK = 1 << 20
ATTEMPTS = 5
PAUSE = 1.0  # seconds before the second attempt; doubled for each further one
RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+|\*)$")


@dataclass(frozen=True)
class RemoteFile:
    """A file to download, and how to know that it is whole."""

    url: str
    size: int  # bytes
    digest: str  # hexadecimal
    algorithm: Algorithm = "sha256"


def download(
    file: RemoteFile,
    target: Path,
    token: str | None = None,
    progress: Progress = lambda count: None,
    pause: float = PAUSE,
) -> None:
    """Download `file` to `target` unless it is there already; interruptions are resumed up to ATTEMPTS times."""
    if target.is_file() and matches(file, target):
        progress(file.size)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f"{target.name}.part")
    check_space(file, part)
    for attempt in range(1, ATTEMPTS + 1):
        try:
            fetch(file, part, token, progress)
            break
        except OSError as error:  # of the disk; those of the network are NetworkErrors
            raise NetworkError(f"{part} cannot be written: {error.strerror}") from None
        except NetworkError as error:
            if attempt == ATTEMPTS or not error.temporary:
                raise
            time.sleep(pause * 2 ** (attempt - 1))
    if not matches(file, part):
        part.unlink()
        raise NetworkError(
            f"{file.url}: the {file.algorithm} of what arrived is not {file.digest}; it was deleted. "
            "Try again; if the error stays, the file was changed at its source"
        )
    sync(part)
    part.rename(target)
    sync(target.parent)


def matches(file: RemoteFile, path: Path) -> bool:
    """Whether a file has the expected size and checksum."""
    if path.stat().st_size != file.size:
        return False
    match file.algorithm:
        case "sha256":
            state = hashlib.sha256()
        case "git-sha1":  # of small files, git's own name for them
            state = hashlib.sha1(b"blob %d\0" % file.size, usedforsecurity=False)
    with path.open("rb") as stream:
        while chunk := stream.read(CHUNK):
            state.update(chunk)
    return state.hexdigest() == file.digest


def check_space(file: RemoteFile, part: Path) -> None:
    needed = file.size - (part.stat().st_size if part.is_file() else 0)
    free = shutil.disk_usage(part.parent).free
    if needed > free:
        raise NetworkError(
            f"{part.parent} has {free / 1e6:,.0f} MB free, but {file.url} needs {needed / 1e6:,.0f} MB: make room"
        )


def fetch(file: RemoteFile, part: Path, token: str | None, progress: Progress) -> None:
    """One attempt: append what is missing to the part, or begin again where the server cannot resume."""
    have = part.stat().st_size if part.is_file() else 0
    if have > file.size:
        part.unlink()
        have = 0
    if have == file.size and part.is_file():
        return
    headers = {"Range": f"bytes={have}-"} if have else {}
    with open_url(file.url, headers, token) as response:
        if have and not resumes_at(response, have):
            have = 0
        have = append(file, response, part, have, progress)
    if have < file.size:
        raise NetworkError(
            f"{file.url}: the connection ended after {have:,} of {file.size:,} bytes. Run the command again to resume",
            temporary=True,
        )


def append(file: RemoteFile, response: http.client.HTTPResponse, part: Path, have: int, progress: Progress) -> int:
    """Write what arrives behind the first `have` bytes of the part; return how many bytes it then has."""
    with part.open("ab" if have else "wb") as stream:
        progress(have)
        while chunk := read_chunk(response, file.url):
            have += len(chunk)
            if have > file.size:
                stream.truncate(0)
                raise NetworkError(f"{file.url} is longer than the {file.size:,} bytes that were announced")
            stream.write(chunk)
            progress(have)
    return have


def resumes_at(response: http.client.HTTPResponse, start: int) -> bool:
    """Whether the response is the rest of the file from `start` on, and not the whole file."""
    found = RANGE.match(response.headers.get("Content-Range", ""))
    return response.status == 206 and found is not None and int(found[1]) == start


def read_chunk(response: http.client.HTTPResponse, url: str) -> bytes:
    try:
        return response.read(CHUNK)
    except http.client.IncompleteRead as error:
        return error.partial
    except (OSError, http.client.HTTPException) as error:
        raise NetworkError(
            f"{url}: the connection broke: {error}. Run the command again to resume", temporary=True
        ) from None
