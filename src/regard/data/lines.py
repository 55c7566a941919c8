"""The lines of a text file, plain or compressed, one at a time; errors name the file and the line.

A line ends at "\\n" only: splitting at U+2028 or U+0085 within a sentence would misalign two files.

A file is read and decompressed in pieces, and the length of a line is limited, so that neither an endless line nor a
few bytes that decompress to gigabytes can fill the memory. Callers that keep all lines use `within_memory`.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

from regard.errors import DataError

MAX_LINE = 10_000_000  # bytes
MAX_TEXT = 500_000_000  # bytes of all lines that are kept in memory
LINE_OVERHEAD = 64  # bytes that even an empty line takes in memory
_BOM = b"\xef\xbb\xbf"
_CHUNK = 1 << 20
_PACKED_CHUNK = 1 << 11  # Zstandard unpacks a chunk at once: 4 bytes become 128 kB at most


def read_lines(path: Path, max_line: int | None = MAX_LINE) -> Iterator[str]:
    """The lines of `path` without line ends; .gz and .zst are decompressed."""
    try:
        yield from decode_lines(chain.from_iterable(split_chunks(_chunks(path), str(path), max_line)), str(path))
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataError(_damaged(path, "gzip", error)) from None
    except FileNotFoundError:
        raise DataError(f"there is no file {path}") from None
    except IsADirectoryError:
        raise DataError(f"{path} is a folder; give a text file") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from None


def within_memory(lines: Iterable[str], name: str, limit: int = MAX_TEXT) -> list[str]:
    """All lines as a list; raises when they take more than `limit` bytes."""
    kept: list[str] = []
    size = 0
    for line in lines:
        size += len(line) + LINE_OVERHEAD
        if size > limit:
            raise DataError(
                f"{name} has more text than fits into memory at once (more than {limit / 1e6:,.0f} MB at line "
                f"{len(kept) + 1}); split it into smaller files"
            )
        kept.append(line)
    return kept


def decode_blocks(blocks: Iterable[list[bytes]], name: str) -> Iterator[list[str]]:
    """The same lines in the same blocks, decoded.

    Lines before one that is not UTF-8 are given before the error: how the blocks were cut makes no difference.
    """
    number = 1
    for block in blocks:
        good: list[str] = []
        try:
            for line in decode_lines(block, name, number):
                good.append(line)
        except DataError:
            if good:
                yield good
            raise
        yield good
        number += len(block)


def decode_lines(lines: Iterable[bytes], name: str, first: int = 1) -> Iterator[str]:
    """Lines without line ends. `name` is that of the input in errors, `first` the number of the first line."""
    for number, line in enumerate(lines, start=first):
        if number == 1:
            line = line.removeprefix(_BOM)
        line = line.removesuffix(b"\n").removesuffix(b"\r")
        try:
            yield line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise DataError(
                f"{name}, line {number}: byte {error.start + 1} of the line (0x{line[error.start]:02x}) is not UTF-8; "
                "convert it first, for example with iconv -f GB18030 -t UTF-8"
            ) from None


def split_chunks(chunks: Iterable[bytes], name: str, max_line: int | None = MAX_LINE) -> Iterator[list[bytes]]:
    """Whole lines out of chunks that end anywhere: with each chunk those that it ends.

    Raises for a line of more than `max_line` bytes, after the lines before it.
    """
    begun: list[bytes] = []
    size = number = 0  # of the line that is begun, and how many lines are before it
    for chunk in chunks:
        first, *others = chunk.split(b"\n")
        begun.append(first)
        size += len(first)
        lines = [b"".join(begun), *others[:-1]] if others else []
        if max_line is not None and max(map(len, lines), default=0) > max_line:
            at = next(at for at, line in enumerate(lines) if len(line) > max_line)
            if at:
                yield lines[:at]
            raise _too_long(name, number + at + 1, max_line)
        if lines:
            yield lines
            number += len(lines)
            begun, size = [others[-1]], len(others[-1])
        if max_line is not None and size > max_line:
            raise _too_long(name, number + 1, max_line)
    last = b"".join(begun)
    if last:
        yield [last]


def _too_long(name: str, number: int, max_line: int) -> DataError:
    return DataError(
        f"{name}, line {number} is longer than {max_line / 1e6:,.0f} MB; break it into lines, one sentence or "
        "paragraph each (if this is not a text file, give a text file)"
    )


def _chunks(path: Path) -> Iterator[bytes]:
    match path.suffix:
        case ".gz":
            with gzip.open(path, "rb") as unpacked:
                yield from iter(lambda: unpacked.read(_CHUNK), b"")
        case ".zst":
            yield from _unpacked_zstd(path)
        case _:
            with path.open("rb") as plain:
                yield from iter(lambda: plain.read(_CHUNK), b"")


def _unpacked_zstd(path: Path) -> Iterator[bytes]:
    try:
        import zstandard
    except ImportError:
        raise DataError(f"{path} is compressed with Zstandard; to read it: pip install 'regard[zstd]'") from None
    # Not zstandard's own reader: it reports no error for a truncated file.
    frame = None
    with path.open("rb") as packed:
        try:
            while chunk := packed.read(_PACKED_CHUNK):
                while chunk:
                    frame = frame or zstandard.ZstdDecompressor().decompressobj()
                    yield frame.decompress(chunk)
                    chunk = frame.unused_data if frame.eof else b""
                    frame = None if frame.eof else frame
        except zstandard.ZstdError as error:
            raise DataError(_damaged(path, "Zstandard", error)) from None
    if frame is not None:
        raise DataError(_damaged(path, "Zstandard", "it is truncated"))


def _damaged(path: Path, packing: str, why: object) -> str:
    return f"{path} is damaged or not a {packing} file ({why}); download or compress it again"
