"""Shared by the commands: options, reading input, progress bars."""

from __future__ import annotations

import io
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from regard.errors import ConfigError, DataError, RegardError

if TYPE_CHECKING:
    from rich.status import Status

    from regard.config import Precision
    from regard.pipelines.translator import Translator

CHUNK = 1 << 20  # bytes: largest read from standard input
BLOCK_LINES, BLOCK_CHARACTERS = 10_000, 10_000_000  # of a file, translated at once
MAX_NOTES = 10  # printed about single lines
SPINNER_DELAY = 1.0  # seconds; shorter work shows no spinner
# Text that ends in one of these is a file name. Language codes that are also internet domains, such as .de, are not
# included.
FILE_SUFFIXES = (".txt", ".gz", ".zst", ".tsv", ".jsonl", ".json", ".en", ".zh", ".src", ".tgt", ".ref")

model_option = click.option(
    "--model",
    "model_path",
    envvar="REGARD_MODEL",
    show_envvar=True,
    type=click.Path(path_type=Path),
    show_default="an installed model",
    help="Model folder (for a run, RUN/model) or name of an installed model.",
)

named_model_option = click.option(
    "--model",
    "model_path",
    envvar="REGARD_MODEL",
    show_envvar=True,
    required=True,
    type=click.Path(path_type=Path),
    help="Model folder, as written by regard train and regard import, or name of an installed model.",
)

weights_option = click.option(
    "--weights",
    type=click.Choice(["int8", "bfloat16", "float32"]),
    show_default="as in the model folder; int8 above 64 MB",
    help="Type of the numbers of a model in a page.",
)

precision_option = click.option(
    "--precision",
    type=click.Choice(["float32", "bfloat16", "int8", "auto"]),
    default="float32",
    help="Search precision; int8 is fastest but approximate. auto: int8 if the CPU has VNNI.",
)


def complete_file(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Shell completion for a text that may be a file: file names."""
    return [CompletionItem(incomplete, type="file")]


def load_translator(path: Path | None, precision: Precision = "float32", **options: Any) -> Translator:
    """A translator with one model, or with all installed models."""
    from regard.pipelines.translator import Translator

    return Translator(path, precision, **options)


def read_lines(source: str | None) -> list[str]:
    """The lines of a file, of standard input ('-' or None), or of the text itself."""
    from regard.data import lines

    return lines.within_memory(chain.from_iterable(read_blocks(source)), name_source(source))


def read_blocks(source: str | None) -> Iterator[list[str]]:
    """The same lines in blocks; from standard input, a block is what can be read without waiting.

    The first block of a file is read at once, so that what is wrong with it is said before any work is done.
    """
    from regard.data import lines

    if source is None and sys.stdin.isatty():
        raise ConfigError("no input: give a text in quotes, a file, or - for standard input")
    if source is None or source == "-":
        arriving = lines.split_chunks(arriving_chunks(), name_source(source))
        return lines.decode_blocks(arriving, name_source(source))
    if is_file(source):
        blocks = file_blocks(Path(source))
        return chain([next(blocks, [])], blocks)
    refuse_mistyped(source)
    text = io.BytesIO(source.encode("utf-8", "surrogateescape"))
    return iter([[*lines.decode_lines(text, name_source(source))] or [""]])


def arriving_chunks() -> Iterator[bytes]:
    """What standard input has, as soon as it has something."""
    stream: Any = sys.stdin.buffer  # a BufferedReader, though typeshed says BinaryIO
    try:
        yield from iter(lambda: stream.read1(CHUNK), b"")
    except OSError as error:
        raise DataError(f"standard input cannot be read: {error.strerror or error}") from None


def file_blocks(path: Path) -> Iterator[list[str]]:
    """The lines of a file in blocks that fit into memory."""
    from regard.data import lines

    block: list[str] = []
    size = 0
    for line in lines.read_lines(path):
        block.append(line)
        size += len(line)
        if len(block) == BLOCK_LINES or size > BLOCK_CHARACTERS:
            yield block
            block, size = [], 0
    yield block


def name_source(source: str | None) -> str:
    """The name of an input in error messages."""
    if source is None or source == "-":
        return "standard input"
    return source if is_file(source) else "the text"


@contextmanager
def at_line(source: str | None, number: int) -> Iterator[None]:
    """Prefix errors raised within the block with the input and line number."""
    try:
        yield
    except RegardError as error:
        raise type(error)(f"{name_source(source)}, line {number}: {error}") from None


def is_file(source: str) -> bool:
    """Whether a file can be read at this path; a shell's <(…) counts."""
    try:
        return Path(source).exists() and not Path(source).is_dir()
    except (OSError, ValueError):  # too long for a path, or with a NUL: it is text
        return False


def refuse_mistyped(source: str) -> None:
    """Raise if a text looks like the name of a file that does not exist."""
    if any(map(str.isspace, source)):
        return
    is_path = "/" in source and any(map(str.isalnum, source))
    if is_path and os.path.isdir(source):
        raise DataError(f"{source} is a folder; give a file")
    if source.endswith(FILE_SUFFIXES) or (is_path and os.path.isdir(os.path.dirname(source))):
        raise DataError(f"file not found: {source} (if this is text, pass it on standard input: echo {source} | …)")


@contextmanager
def progress_bar(title: str, total: int) -> Iterator[Any]:
    """A progress bar on a terminal, nothing elsewhere; yields a function that advances it."""
    if total < 2 or not can_draw():
        with spinner(title):  # a bar with one item would not move
            yield lambda count: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(title, total=total)
        yield lambda count: progress.advance(task, count)


@contextmanager
def spinner(title: str) -> Iterator[None]:
    """A spinner on a terminal for work that takes longer than a second."""
    if not can_draw():
        yield
        return
    drawn: list[Status] = []

    def draw() -> None:
        from rich.console import Console
        from rich.text import Text

        drawn.append(Console(stderr=True).status(Text(title)))  # Text: brackets in a file name are not markup
        drawn[0].start()

    timer = threading.Timer(SPINNER_DELAY, draw)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()  # it may be drawing
        for status in drawn:
            status.stop()


def can_draw() -> bool:
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


def decode_options(**given: Any) -> dict[str, Any]:
    """The decoding options that the user set; for the others the model has defaults."""
    chosen = {name: value for name, value in given.items() if value is not None}
    if chosen.get("temperature") == 0:
        raise ConfigError("--temperature must be greater than 0; for greedy decoding use --top-k 1")
    return chosen
