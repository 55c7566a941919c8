"""Download a published corpus into the folder of the data.

Each file is downloaded, prepared and compared with its checksum before it is stored. The corpus gets its name when all
of its files are there; files of an interrupted command wait in the cache.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import os
import shutil
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import assert_never

from regard.data.published import PublishedCorpus, PublishedFile
from regard.errors import ConfigError, DataError, NetworkError
from regard.model_folder.atomic import atomic_folder, atomic_write, delete, download_folder
from regard.network.download import ATTEMPTS, PAUSE, read_chunk
from regard.network.request import open_url

Progress = Callable[[str, int, int], None]  # file, bytes that have arrived, bytes of the download, 0 if not announced

MAX_DOWNLOAD = 100_000_000  # bytes, packed
MAX_CONTENT = 200_000_000  # bytes, unpacked
GZIP = 31  # window bits of zlib for the gzip format
IDX_HEADERS = {b"\0\0\x08\x03": 16, b"\0\0\x08\x01": 8}  # bytes before the first image, before the first label


def fetch_corpus(
    corpus: PublishedCorpus, folder: Path, progress: Progress = lambda *_: None, pause: float = PAUSE
) -> Path:
    """The folder of the corpus in `folder`; where it is there already, it is checked, and nothing is downloaded."""
    target = folder / corpus.name
    if os.path.lexists(target):
        check_corpus(corpus, target)
        delete(download_folder(corpus.name))  # of a command that was killed when it was almost done
        return target
    if not corpus.files:
        raise ConfigError(
            f"{corpus.name} is put together from several files of its source and cannot be downloaded as it is. "
            f"Source: {corpus.source}. Licence: {corpus.licence}. Put the files that the recipe names into {target}"
        )
    waiting = download_folder(corpus.name)
    for file in corpus.files:
        fetch_file(file, waiting / file.name, progress, pause)
    with atomic_folder(target) as new:
        for file in corpus.files:
            shutil.copyfile(waiting / file.name, new / file.name)
        (new / "README.md").write_text(describe(corpus), "utf-8")
    shutil.rmtree(waiting)
    return target


def check_corpus(corpus: PublishedCorpus, folder: Path) -> None:
    """Raise a DataError where a file is missing, damaged or another one."""
    for file in corpus.files:
        path = folder / file.name
        if not is_stored(file, path):
            problem = "is not the published file: its SHA-256 is another" if path.is_file() else "is missing"
            raise DataError(
                f"{path} {problem}. Rename or delete {folder}, then run regard data get {corpus.name} again"
            )


def describe(corpus: PublishedCorpus) -> str:
    sources = "".join(f"- {file.name}: {file.url}\n" for file in corpus.files)
    return f"# {corpus.name}\n\n{corpus.about}\n\nSource: {corpus.source}\nLicence: {corpus.licence}\n\n{sources}"


def fetch_file(file: PublishedFile, target: Path, progress: Progress, pause: float) -> None:
    """Download, prepare, check and store a file, unless an earlier command has done so."""
    if is_stored(file, target):
        return
    content = prepare(file, download(file, progress, pause))
    if not is_right(file, content):
        raise NetworkError(
            f"{file.url}: the content is not the expected one ({len(content):,} bytes, expected {file.size:,}; or "
            "another SHA-256), and was not stored. Try again; if the error stays, the file was changed at its source"
        )
    atomic_write(target, gzip.compress(content, mtime=0))


def is_right(file: PublishedFile, content: bytes) -> bool:
    return len(content) == file.size and hashlib.sha256(content).hexdigest() == file.sha256


def is_stored(file: PublishedFile, path: Path) -> bool:
    try:
        return path.is_file() and is_right(file, unpack(path.read_bytes(), str(path)))
    except (NetworkError, OSError):
        return False


def download(file: PublishedFile, progress: Progress, pause: float) -> bytes:
    """The bytes at the address of a file; after an interruption the download begins again."""
    attempt = 1
    while True:
        try:
            return download_once(file, progress)
        except NetworkError as error:
            if attempt == ATTEMPTS or not error.temporary:
                raise
        time.sleep(pause * 2 ** (attempt - 1))
        attempt += 1


def download_once(file: PublishedFile, progress: Progress) -> bytes:
    with open_url(file.url) as response:
        size = response.length or 0
        content = bytearray()
        progress(file.name, 0, size)
        while chunk := read_chunk(response, file.url):
            content += chunk
            if len(content) > MAX_DOWNLOAD:
                raise NetworkError(f"{file.url} answers with more than {MAX_DOWNLOAD:,} bytes, which was not expected")
            progress(file.name, len(content), size)
    if len(content) < size:
        raise NetworkError(
            f"{file.url}: the connection ended after {len(content):,} of {size:,} bytes. Run the command again",
            temporary=True,
        )
    return bytes(content)


def prepare(file: PublishedFile, content: bytes) -> bytes:
    """The content as recipes expect it."""
    if file.url.endswith(".gz"):
        content = unpack(content, file.url)
    try:
        match file.preparation:
            case "unchanged":
                return content
            case "spaces":
                return b"".join(" ".join(line.split()).encode() + b"\n" for line in content.decode().splitlines())
            case "csv":
                return labelled_lines(content.decode())
            case "first":
                return first_items(content, file.first)
            case _:
                assert_never(file.preparation)
    except (ValueError, LookupError, csv.Error) as error:
        raise NetworkError(f"{file.url} is not a file of the expected form: {error}. Nothing was stored") from None


def unpack(content: bytes, name: str) -> bytes:
    """The content of a gzip file; more than MAX_CONTENT is refused."""
    unpacker = zlib.decompressobj(GZIP)
    try:
        unpacked = unpacker.decompress(content, MAX_CONTENT)
    except zlib.error as error:
        raise NetworkError(f"{name} is not a gzip file: {error}. Nothing was stored") from None
    if not unpacker.eof:
        raise NetworkError(f"{name} is cut off, or longer than {MAX_CONTENT:,} bytes. Nothing was stored")
    return unpacked


def labelled_lines(text: str) -> bytes:
    """A CSV file with a header as lines of text, tab, label; a line break within a text becomes a space."""
    rows = list(csv.reader(io.StringIO(text)))[1:]
    return b"".join("\t".join(" ".join(cell.split()) for cell in (row[0], row[1])).encode() + b"\n" for row in rows)


def first_items(content: bytes, count: int) -> bytes:
    """The first images or labels of an IDX file."""
    header = IDX_HEADERS[content[:4]]
    total = int.from_bytes(content[4:8], "big")
    if total < count:
        raise ValueError(f"it has {total:,} items, expected at least {count:,}")
    item = (len(content) - header) // total
    return content[:4] + count.to_bytes(4, "big") + content[8 : header + count * item]
