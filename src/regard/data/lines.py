"""The lines of a text file, plain or compressed, one at a time; errors name the file and the line.

A line ends at "\\n" only: splitting at U+2028 or U+0085 within a sentence would misalign two files.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

from regard.errors import DataError

_BOM = b"\xef\xbb\xbf"
_CHUNK = 1 << 20


def read_lines(path: Path) -> Iterator[str]:
    """The lines of `path` without line ends; .gz and .zst are decompressed."""
    try:
        yield from decode_lines(_raw_lines(path), str(path))
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataError(_damaged(path, "gzip", error)) from None
    except FileNotFoundError:
        raise DataError(f"there is no file {path}") from None
    except IsADirectoryError:
        raise DataError(f"{path} is a folder; give a text file") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from None


def decode_blocks(blocks: Iterable[list[bytes]], name: str) -> Iterator[list[str]]:
    """The same lines in the same blocks, decoded."""
    number = 1
    for block in blocks:
        yield [*decode_lines(block, name, number)]
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


def _raw_lines(path: Path) -> Iterator[bytes]:
    match path.suffix:
        case ".gz":
            with gzip.open(path, "rb") as unpacked:
                yield from unpacked
        case ".zst":
            yield from chain.from_iterable(split_chunks(_unpacked_zstd(path)))
        case _:
            with path.open("rb") as plain:
                yield from plain


def split_chunks(chunks: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Complete lines from chunks that may end anywhere; each block has the lines that its chunk completes."""
    begun: list[bytes] = []
    for chunk in chunks:
        first, *others = chunk.split(b"\n")
        begun.append(first)
        if others:
            yield [b"".join(begun), *others[:-1]]
            begun = [others[-1]]
    last = b"".join(begun)
    if last:
        yield [last]


def _unpacked_zstd(path: Path) -> Iterator[bytes]:
    try:
        import zstandard
    except ImportError:
        raise DataError(f"{path} is compressed with Zstandard; to read it: pip install 'regard[zstd]'") from None
    # Not zstandard's own reader: it reports no error for a truncated file.
    frame = None
    with path.open("rb") as packed:
        try:
            while chunk := packed.read(_CHUNK):
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
