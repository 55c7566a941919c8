"""The command as a process: its standard streams, Ctrl-C, its arguments, and the log of a defect."""

from __future__ import annotations

import atexit
import errno
import io
import os
import platform
import signal
import sys
import tempfile
import traceback
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

import click

from regard import __version__
from regard.errors import ConfigError

LONGEST_LOG = 1_000_000  # characters
LONGEST_SUMMARY = 200


class ClosedStream(io.RawIOBase):
    """Stands for a standard stream that the caller has closed: an error for who uses it, and for nobody else."""

    def __init__(self, name: str) -> None:
        self.message = f"{name} is closed"

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        raise OSError(errno.EBADF, self.message)

    def write(self, content: Any) -> int:
        raise OSError(errno.EBADF, self.message)


def open_standard_streams() -> None:
    """Take the places of closed streams, which else the next file that is opened would get; write UTF-8."""
    for handle in (0, 1, 2):
        try:
            os.fstat(handle)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number, which is this one
    if sys.stdin is None:
        sys.stdin = io.TextIOWrapper(io.BufferedReader(ClosedStream("standard input")))
    if sys.stderr is None:  # there is nobody to tell
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    if sys.stdout is None:
        sys.stdout = io.TextIOWrapper(ClosedStream("standard output"), "utf-8", write_through=True)
    elif isinstance(sys.stdout, io.TextIOWrapper):  # a program or a notebook may have replaced it
        # UTF-8 whatever the locale, as for input; a lone surrogate, which a file name may contain, becomes "?".
        sys.stdout.reconfigure(encoding="utf-8", errors="replace")


def close_output(code: Any) -> Any:
    """The exit code, after what standard output still holds is written; a failure changes the code."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError) as error:
        if getattr(error, "errno", None) != errno.EPIPE:
            say(f"regard: standard output cannot be written: {getattr(error, 'strerror', None) or error}")
        if sys.__stdout__ is sys.stdout is not None:  # Python flushes once more at its end, and would complain
            with suppress(OSError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return code or 1
    return code


def say(text: str) -> None:
    """Print on standard error, if anybody can read it."""
    with suppress(OSError, ValueError):
        click.echo(text, err=True)


def check_arguments(arguments: list[str]) -> None:
    """Raise for an argument that is not UTF-8, except for names of files: translated, it would be another text."""
    for number, argument in enumerate(arguments, start=1):
        try:
            argument.encode("utf-8")
        except UnicodeEncodeError as error:
            if os.path.lexists(argument) or os.path.lexists(argument.partition("=")[2]):
                continue
            bad = os.fsencode(argument[error.start])
            raise ConfigError(
                f"argument {number} is not UTF-8 (0x{bad.hex()} is its character {error.start + 1}), and there is no "
                "file of this name; set the terminal to UTF-8, or convert the text: iconv -f GB18030 -t UTF-8"
            ) from None


class Interruption:
    """Ctrl-C: the first raises KeyboardInterrupt, so that files are closed and deleted; a second ends the process."""

    def __init__(self) -> None:
        self.seen = False
        self.before: Any = signal.SIG_IGN

    def listen(self) -> None:
        """Not for a job in the background, which ignores Ctrl-C, nor outside the main thread."""
        if signal.getsignal(signal.SIGINT) in (signal.SIG_IGN, None):
            return
        with suppress(ValueError):
            self.before = signal.signal(signal.SIGINT, self.interrupt)
            atexit.unregister(ignore_interrupts)
            atexit.register(ignore_interrupts)  # what still runs then is not worth a traceback

    def interrupt(self, number: int, frame: FrameType | None) -> None:
        if self.seen:
            os._exit(130)
        self.seen = True
        raise KeyboardInterrupt

    def close(self) -> None:
        if self.before != signal.SIG_IGN:
            signal.signal(signal.SIGINT, self.before)


def ignore_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def describe_defect(error: BaseException) -> str:
    """One sentence about an unexpected error, whose traceback is written to a log file."""
    summary = " ".join(f"{type(error).__name__}: {error}".split())[:LONGEST_SUMMARY]
    path = write_log(error)
    where = f"the details are in {path}" if path else "no log file could be written"
    return f"unexpected error, a defect of Regard ({summary}); {where}; please report it with them"


def write_log(error: BaseException) -> Path | None:
    """A new file that only its owner can read, in the cache or else in a temporary folder."""
    from regard.model_folder.atomic import default_cache, make_private_folder

    lines = traceback.format_exception(error)
    versions = f"regard {__version__}, Python {platform.python_version()}, {platform.platform()}"
    content = f"{versions}\narguments: {sys.argv[1:]}\n\n{''.join(lines)[-LONGEST_LOG:]}"
    for folder in (default_cache() / "logs", Path(tempfile.gettempdir())):
        with suppress(OSError, RuntimeError):  # RuntimeError: there is no home folder
            make_private_folder(folder)
            handle, name = tempfile.mkstemp(prefix="regard-", suffix=".log", dir=folder)
            with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
                file.write(content)
            return Path(name)
    return None
