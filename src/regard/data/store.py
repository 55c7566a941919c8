"""Encoded pairs on disk, memory-mapped: only the parts that are read are in memory.

A store is a folder: for each column a file of concatenated values and a file of offsets (int64, one more than there are
rows), and `store.json`, written last. It is written under a temporary name, synced and then renamed, so a folder with
the final name was once complete. Whether it still is, is checked when it is opened: `store.json` lists the checksum of
every file and has its own. This reads the whole store once, at some 0.5 to 2 GB per second.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from regard.errors import DataError
from regard.model_folder.atomic import publish_folder, temporary_cache_folder, write_synced
from regard.model_folder.checked_json import SUMS, DamagedFileError, check_listed, checked, read_checked

STORE_FORMAT = 2
META_FILE = "store.json"

Ids = npt.NDArray[np.unsignedinteger[Any]]
_ID_COLUMNS = ("src", "tgt")
_TEXT_COLUMNS = ("src_text", "tgt_text")


class Ragged:
    """Rows of different lengths, memory-mapped."""

    def __init__(self, stem: Path, dtype: npt.DTypeLike, rows: int) -> None:
        offsets = stem.with_suffix(".offsets")
        self._offsets = _mapped(offsets, np.int64, rows + 1)
        if self._offsets[0] != 0 or np.any(self._offsets[1:] < self._offsets[:-1]):
            raise DataError(f"{offsets} is damaged: offsets begin with 0 and never fall")
        self._values = _mapped(stem.with_suffix(".values"), dtype, int(self._offsets[-1]))

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, row: int) -> Ids:
        if not 0 <= row < len(self):
            raise IndexError(f"row {row} of {len(self)}")
        values: Ids = self._values[self._offsets[row] : self._offsets[row + 1]]
        return values

    @property
    def values(self) -> Ids:
        """All rows, one after the other."""
        return self._values

    @property
    def total(self) -> int:
        """The number of values in all rows."""
        return int(self._offsets[-1])

    def lengths(self, start: int = 0, stop: int | None = None) -> npt.NDArray[np.int64]:
        """The lengths of the rows from `start` to `stop`."""
        stop = len(self) if stop is None else stop
        return np.diff(self._offsets[start : stop + 1])


def _mapped(path: Path, dtype: npt.DTypeLike, count: int) -> npt.NDArray[Any]:
    expected = count * np.dtype(dtype).itemsize
    try:
        actual = path.stat().st_size
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror})") from None
    if actual != expected:
        raise DataError(f"{path} has {actual:,} bytes instead of {expected:,}")
    if not count:
        return np.empty(0, dtype)  # an empty file cannot be mapped
    # A plain array over the map: np.memmap's own indexing is several times slower.
    return np.asarray(np.memmap(path, dtype, mode="r"))


class PairStore:
    """The kept pairs of one corpus: their ids and, for subword sampling, their texts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        meta = _read_meta(folder)
        dtype, rows = np.dtype(meta["dtype"]), int(meta["rows"])
        self.src = Ragged(folder / "src", dtype, rows)
        self.tgt = Ragged(folder / "tgt", dtype, rows)
        for name, column in (("src", self.src), ("tgt", self.tgt)):
            if column.total and column.values.max() >= meta["vocab_size"]:
                raise DataError(f"{folder / name}.values is damaged: it has token ids beyond the vocabulary")
        self.max_tokens: int = meta["max_tokens"]  # per side, by the filters
        self.notes: dict[str, Any] = meta["notes"]
        self.has_text: bool = meta["with_text"]
        if self.has_text:
            self._src_text = Ragged(folder / "src_text", np.uint8, rows)
            self._tgt_text = Ragged(folder / "tgt_text", np.uint8, rows)

    def __len__(self) -> int:
        return len(self.src)

    def src_text(self, row: int) -> str:
        return self._src_text[row].tobytes().decode()

    def tgt_text(self, row: int) -> str:
        return self._tgt_text[row].tobytes().decode()


def _read_meta(folder: Path) -> dict[str, Any]:
    """What `store.json` says, after every file has been compared with its checksum."""
    try:
        meta, has_checksum = read_checked(folder / META_FILE)
        if not has_checksum or meta.get("format") != STORE_FORMAT:
            raise DataError(f"{folder / META_FILE} was written by another version of Regard")
        check_listed(folder, meta.get(SUMS))
        return meta
    except DamagedFileError as error:
        raise DataError(str(error)) from None


class PairStoreWriter:
    """Writes a PairStore chunk by chunk. `folder` appears at `finish`; without it, nothing remains."""

    def __init__(self, folder: Path, vocab_size: int, with_text: bool, max_tokens: int) -> None:
        self.folder = folder
        self._temporary = temporary_cache_folder(folder)
        self._dtype = np.dtype(np.uint16 if vocab_size < 1 << 16 else np.uint32)
        self._with_text = with_text
        self._rows = 0
        self._max_tokens, self._vocab_size = max_tokens, vocab_size
        columns = _ID_COLUMNS + (_TEXT_COLUMNS if with_text else ())
        self._columns = {name: _ColumnWriter(self._temporary / name) for name in columns}

    def append(
        self, src: Sequence[Sequence[int]], tgt: Sequence[Sequence[int]], texts: Sequence[tuple[str, str]]
    ) -> None:
        """Add pairs: their ids and, for a store with text, their texts."""
        self._rows += len(src)
        for name, rows in zip(_ID_COLUMNS, (src, tgt), strict=True):
            self._columns[name].append([np.asarray(row, self._dtype) for row in rows])
        if self._with_text:
            for name, column in zip(_TEXT_COLUMNS, zip(*texts, strict=True), strict=False):
                self._columns[name].append([np.frombuffer(text.encode(), np.uint8) for text in column])

    def finish(self, notes: dict[str, Any]) -> PairStore:
        """Publish the store; if another process has done so already, its store stays. `notes` are stored with it."""
        for column in self._columns.values():
            column.close()
        meta = {
            "format": STORE_FORMAT,
            "rows": self._rows,
            "dtype": self._dtype.name,
            "vocab_size": self._vocab_size,
            "max_tokens": self._max_tokens,
            "with_text": self._with_text,
            "notes": notes,
            SUMS: {name: total for column in self._columns.values() for name, total in column.sums().items()},
        }
        write_synced(self._temporary / META_FILE, checked(meta))
        publish_folder(self._temporary, self.folder)
        try:
            return PairStore(self.folder)
        except DataError as error:  # another process was first, and its store is damaged
            raise DataError(f"{error}; run the command again, and it is set aside") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for column in self._columns.values():
            column.abandon()
        shutil.rmtree(self._temporary, ignore_errors=True)


class _ColumnWriter:
    def __init__(self, stem: Path) -> None:
        self._values = _SummedFile(stem.with_suffix(".values"))
        self._offsets = _SummedFile(stem.with_suffix(".offsets"))
        self._offsets.write(np.zeros(1, np.int64).tobytes())
        self._total = 0

    def append(self, rows: Sequence[npt.NDArray[Any]]) -> None:
        if not rows:
            return
        offsets = self._total + np.cumsum([len(row) for row in rows], dtype=np.int64)
        self._total = int(offsets[-1])
        self._values.write(np.concatenate(rows).tobytes())
        self._offsets.write(offsets.tobytes())

    def close(self) -> None:
        for written in (self._values, self._offsets):
            written.file.flush()
            os.fsync(written.file.fileno())
            written.file.close()

    def sums(self) -> dict[str, str]:
        return {written.path.name: written.sha256.hexdigest() for written in (self._values, self._offsets)}

    def abandon(self) -> None:
        for written in (self._values, self._offsets):
            with suppress(OSError):  # the disk is full: what is left in the buffer does not fit either
                written.file.close()


class _SummedFile:
    """A new file whose checksum is taken of what is to be written, not of what a disk gives back."""

    def __init__(self, path: Path) -> None:
        self.path, self.file, self.sha256 = path, path.open("wb"), hashlib.sha256()

    def write(self, content: bytes) -> None:
        self.file.write(content)
        self.sha256.update(content)
