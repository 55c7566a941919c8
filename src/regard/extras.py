"""Optional packages: what is said where one is needed and not installed."""

from __future__ import annotations

import functools
from importlib.util import find_spec

from regard.errors import MissingPackageError

# The extra of pyproject.toml that installs a package.
EXTRAS = {"torch": "torch", "matplotlib": "plot", "zstandard": "zstd", "PIL": "images", "ctranslate2": "ct2"}
NAMES = {"PIL": "Pillow", "zstandard": "Zstandard"}


@functools.cache
def installed(package: str) -> bool:
    return find_spec(package) is not None


def require(package: str, what: str) -> None:
    """Raise, in one sentence with the line to type, where a package is not installed. `what` begins the sentence."""
    if not installed(package):
        raise missing(package, what)


def missing(package: str, what: str) -> MissingPackageError:
    return MissingPackageError(
        f'{what} needs {NAMES.get(package, package)}, which is not installed: pip install "regard[{EXTRAS[package]}]"'
    )


def from_import_error(error: ImportError, what: str) -> MissingPackageError | None:
    """What a failed import means; None if it is not about an optional package."""
    package = (error.name or "").partition(".")[0]
    return missing(package, what) if package in EXTRAS and not installed(package) else None
