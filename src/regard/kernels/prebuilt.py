"""The libraries that a platform wheel brings: one per instruction set, with their SHA-256 in a manifest.

They lie in the package, beside the Python code, and are as trustworthy as that. A damaged one is not loaded.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from regard.kernels.instruction_sets import supported

FOLDER = Path(__file__).parent / "built"
MANIFEST = "manifest.json"


class DamagedPackageError(Exception):
    """A library of the package is not what was built; the message says what to do."""


def library_name(source: Path, instruction_set: str) -> str:
    return f"{source.stem}-{instruction_set}.so"


def write_manifest(folder: Path) -> None:
    """Of all libraries in a folder."""
    sums = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.glob("*.so"))}
    (folder / MANIFEST).write_text(json.dumps(sums, indent=2) + "\n", "utf-8")


def read_manifest(folder: Path) -> Mapping[str, str]:
    """SHA-256 by file name; empty where the package was installed without libraries."""
    try:
        sums = json.loads((folder / MANIFEST).read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise damaged(folder / MANIFEST, str(error)) from None
    if not isinstance(sums, dict):
        raise damaged(folder / MANIFEST, "it is not a JSON object")
    return sums


def find_prebuilt(source: Path, folder: Path) -> tuple[Path, str] | None:
    """The best library for this CPU, and its SHA-256; None where the package has none for it."""
    sums = read_manifest(folder)
    for one in supported():
        path = folder / library_name(source, one.name)
        if path.name not in sums:
            continue
        try:
            found = hashlib.sha256(path.read_bytes()).hexdigest()
        except OSError as error:
            raise damaged(path, str(error)) from None
        if found != sums[path.name]:
            raise damaged(path, f"its SHA-256 is not the one in {MANIFEST}")
        return path, found
    return None


def damaged(path: Path, why: str) -> DamagedPackageError:
    return DamagedPackageError(
        f"{path} is damaged: {why}; install Regard again: pip install --force-reinstall --no-deps regard"
    )
