"""What commands share: where text comes from, where it goes, which model, how long it takes."""

from __future__ import annotations

import io
import os
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from regard.errors import ConfigError, DataError, RegardError

if TYPE_CHECKING:
    from rich.status import Status

    from regard.config import Precision
    from regard.pipelines.translator import Translator

CHUNK = 1 << 20  # bytes of standard input at most that are worked on at once
MOST_NOTES = 10  # printed about the lines of a file
SECONDS_UNSEEN = 1.0  # work that is shorter needs no sign of life, nor the time that it takes to draw one
# No sentence ends so. Codes of languages that are also domains of the internet, such as .de, are left out.
FILE_SUFFIXES = (".txt", ".gz", ".zst", ".tsv", ".jsonl", ".json", ".en", ".zh", ".src", ".tgt", ".ref")

model_option = click.option(
    "--model",
    "model_path",
    envvar="REGARD_MODEL",
    type=click.Path(path_type=Path),
    help="A model folder (a run's is RUN/model) or an installed model's name. [REGARD_MODEL, or an installed one]",
)

named_model_option = click.option(
    "--model",
    "model_path",
    envvar="REGARD_MODEL",
    required=True,
    type=click.Path(path_type=Path),
    help="A model folder, as regard train and regard import make, or an installed model's name. [REGARD_MODEL]",
)

precision_option = click.option(
    "--precision",
    type=click.Choice(["float32", "bfloat16", "int8", "auto"]),
    default="float32",
    help="Of the search: int8 is fastest, not exact; auto is int8 where the machine has units for it. [float32]",
)


def complete_file(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """What the Tab key offers for a text that may be a file: the names of files."""
    return [CompletionItem(incomplete, type="file")]


def load_translator(path: Path | None, precision: Precision = "float32", **options: Any) -> Translator:
    """The translator of one model, or of all that are installed."""
    from regard.pipelines.translator import Translator

    return Translator(path, precision, **options)


def read_lines(source: str | None) -> list[str]:
    """The lines of a file, of standard input ('-', or nothing given), or the text itself."""
    return [line for block in read_blocks(source) for line in block]


def read_blocks(source: str | None) -> Iterable[list[str]]:
    """The same lines, but those of standard input as they come: what can be had without waiting, together."""
    from regard.data import lines

    if source is None and sys.stdin.isatty():
        raise ConfigError("what text? Give it in quotes, or a file, or - for standard input")
    if source is None or source == "-":
        stream: Any = sys.stdin.buffer  # a reader with a buffer, which typeshed does not say
        arriving = lines.split_chunks(iter(lambda: stream.read1(CHUNK), b""))
        return lines.decode_blocks(arriving, name_source(source))
    if is_file(source):
        return [[*lines.read_lines(Path(source))]]
    refuse_mistyped(source)
    text = io.BytesIO(source.encode("utf-8", "replace"))
    return [[*lines.decode_lines(text, name_source(source))] or [""]]


def name_source(source: str | None) -> str:
    """What errors call the place that lines come from."""
    if source is None or source == "-":
        return "standard input"
    return source if is_file(source) else "the text"


@contextmanager
def at_line(source: str | None, number: int) -> Iterator[None]:
    """Errors within begin with the line that they are about."""
    try:
        yield
    except RegardError as error:
        raise type(error)(f"{name_source(source)}, line {number}: {error}") from None


def is_file(source: str) -> bool:
    """Whether there is something to read at this name: a file, or what a shell's <(…) gives."""
    try:
        return Path(source).exists() and not Path(source).is_dir()
    except (OSError, ValueError):  # too long for a name, or with a NUL in it: a text
        return False


def refuse_mistyped(source: str) -> None:
    """Raise for a text that was surely meant to be the name of a file."""
    if any(map(str.isspace, source)):
        return
    is_path = "/" in source and any(map(str.isalnum, source))
    if is_path and os.path.isdir(source):
        raise DataError(f"{source} is a folder; name a file in it")
    if source.endswith(FILE_SUFFIXES) or (is_path and os.path.isdir(os.path.dirname(source))):
        raise DataError(f"there is no file {source}; if these are words to work on, pipe them in: echo {source} | …")


def check_output(output: Path | None) -> None:
    """Say before the work, not after it, that its result would have nowhere to go."""
    if output is None:
        return
    if output.is_dir():
        raise ConfigError(f"{output} is a folder; name a file in it")
    there = next(path for path in (output, *output.absolute().parents) if path.exists())
    if there != output and not there.is_dir():
        raise ConfigError(f"{output} cannot be written: {there} is not a folder")
    needed = {there, there.absolute().parent} if there.is_file() else {there}  # a file is replaced, whole
    for path in sorted(needed):
        if not os.access(path, os.W_OK):
            raise ConfigError(f"{output} cannot be written: you have no permission to write to {path}")


def write_output(text: str, output: Path | None) -> None:
    """To a file, whole or not at all; else to standard output."""
    from regard.model_folder.atomic import atomic_write

    if output is None:
        click.echo(text, nl=False)
        return
    try:
        if output.exists() and not output.is_file():  # /dev/null or a pipe: not to be replaced by a file
            output.write_bytes(text.encode())
        else:
            atomic_write(output.resolve(), text.encode())
    except OSError as error:
        raise ConfigError(f"{output} cannot be written: {error.strerror}") from None


@contextmanager
def progress_bar(title: str, total: int) -> Iterator[Any]:
    """A function to call with the number of things done; a bar on a terminal, nothing elsewhere."""
    if total < 2 or not can_draw():
        with spinner(title):  # a bar of one thing would stand still
            yield lambda count: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(title, total=total)
        yield lambda count: progress.advance(task, count)


@contextmanager
def spinner(title: str) -> Iterator[None]:
    """A sign of life on a terminal, for work that cannot be counted and that takes its time."""
    if not can_draw():
        yield
        return
    drawn: list[Status] = []

    def draw() -> None:
        from rich.console import Console
        from rich.text import Text

        drawn.append(Console(stderr=True).status(Text(title)))  # brackets in a file's name are no markup
        drawn[0].start()

    timer = threading.Timer(SECONDS_UNSEEN, draw)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()  # it may be drawing just now
        for status in drawn:
            status.stop()


def can_draw() -> bool:
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


def decode_options(**given: Any) -> dict[str, Any]:
    """Only what the user set: the rest is the model's own."""
    chosen = {name: value for name, value in given.items() if value is not None}
    if chosen.get("temperature") == 0:
        raise ConfigError("--temperature 0 is not possible; to always take the likeliest, give --top-k 1 instead")
    return chosen
