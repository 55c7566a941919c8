"""JSON files that carry their own checksum, and the checksums of the files beside them.

The checksum is over the values, not over the bytes: a changed bit that goes unnoticed (one space for another) changes
no value. Files of earlier versions have no checksum; `read_checked` says so, and the caller decides whether to read on.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from regard.model_folder.folder import digest

CHECKSUM, SUMS = "sha256", "sums"


class DamagedFileError(ValueError):
    """A file that was altered, damaged or lost; the message names it."""


def checksum(content: Mapping[str, Any]) -> str:
    """Of the values of a JSON object, whatever their order and layout."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def checked(content: Mapping[str, Any]) -> bytes:
    """The JSON file of these values, which must be what JSON gives back, and of their checksum."""
    values = json.loads(json.dumps(content))
    return (json.dumps({**values, CHECKSUM: checksum(values)}, indent=2, ensure_ascii=False) + "\n").encode()


def read_checked(path: Path) -> tuple[dict[str, Any], bool]:
    """The values, and whether the file has a checksum, which is then right. Raises `DamagedFileError`."""
    try:
        content = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise DamagedFileError(f"{path} cannot be read: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise DamagedFileError(f"{path} is damaged: it is not JSON ({error})") from None
    if not isinstance(content, dict):
        raise DamagedFileError(f"{path} is damaged: it is not a JSON object")
    if CHECKSUM not in content:
        return content, False
    if content.pop(CHECKSUM) != checksum(content):
        raise DamagedFileError(f"{path} was altered or damaged: its content does not match its {CHECKSUM}")
    return content, True


def sums_of(folder: Path, names: Iterable[str]) -> dict[str, str]:
    return {name: digest(folder / name) for name in names}


def check_listed(folder: Path, sums: Any) -> None:
    """Raise `DamagedFileError` unless every file of `sums` is there and whole."""
    if not isinstance(sums, dict):
        raise DamagedFileError(f"{folder} is damaged: the checksums of its files are not a table")
    for name, expected in sums.items():
        try:
            actual = digest(folder / name)
        except OSError as error:
            raise DamagedFileError(f"{folder / name} cannot be read: {error.strerror or error}") from None
        if actual != expected:
            raise DamagedFileError(f"{folder / name} was altered or damaged: it does not match its checksum")
