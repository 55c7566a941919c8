"""Shared by the commands: writing to a file, whole or not at all, or to standard output."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import click

from regard.errors import ConfigError


def check_output(output: Path | None) -> None:
    """Raise before any work is done if the output cannot be written."""
    if output is None:
        return
    if output.is_dir():
        raise ConfigError(f"{output} is a folder; give a file name")
    there = next(path for path in (output, *output.absolute().parents) if path.exists())
    if there != output and not there.is_dir():
        raise ConfigError(f"{output} cannot be written: {there} is not a folder")
    needed = {there, there.absolute().parent} if there.is_file() else {there}  # the file is replaced atomically
    for path in sorted(needed):
        if not os.access(path, os.W_OK):
            raise ConfigError(f"{output} cannot be written: you have no permission to write to {path}")


@contextmanager
def open_output(output: Path | None) -> Iterator[Callable[[str | bytes], None]]:
    """A function that writes to standard output or to a file, which gets its name when the block ends without an error.

    What a killed process had begun to write to the same file is deleted.
    """
    from regard.model_folder.atomic import atomic_file

    if output is None:
        yield lambda content: click.echo(content, nl=False)
    elif output.exists() and not output.is_file():  # /dev/null or a pipe must not be replaced by a file
        with output.open("wb", buffering=0) as file:
            yield writer(output, file)
    else:
        output = output.resolve()
        with atomic_file(output) as temporary, temporary.open("wb") as file:
            yield writer(output, file)


def write_output(content: str | bytes, output: Path | None) -> None:
    """Write to a file atomically, or to standard output."""
    with named_errors(output), open_output(output) as write:
        write(content)


def writer(output: Path, file: IO[bytes]) -> Callable[[str | bytes], None]:
    def write(content: str | bytes) -> None:
        rest = memoryview(content.encode("utf-8", "replace") if isinstance(content, str) else content)
        with named_errors(output):
            while rest:  # to a pipe, a part may be written
                rest = rest[file.write(rest) :]
            file.flush()

    return write


@contextmanager
def named_errors(output: Path | None) -> Iterator[None]:
    """What the system refuses, said of the output file; standard output is left to `main`."""
    try:
        yield
    except OSError as error:
        if output is None:
            raise
        raise ConfigError(f"{output} cannot be written: {error.strerror or error}") from None
