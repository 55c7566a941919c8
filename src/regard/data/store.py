"""Encoded pairs on disk, memory-mapped: only the parts that are read are in memory.

A store is a folder: for each column a file of concatenated values and a file of offsets (int64, one more than there are
rows), and `store.json`, written last. It is written under a temporary name, synced and then renamed, so a folder with
the final name is always complete.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from regard.errors import DataError
from regard.model_folder.atomic import publish_folder, temporary_cache_folder, write_synced

STORE_FORMAT = 1
META_FILE = "store.json"

Ids = npt.NDArray[np.unsignedinteger[Any]]
_ID_COLUMNS = ("src", "tgt")
_TEXT_COLUMNS = ("src_text", "tgt_text")


class Ragged:
    """Rows of different lengths, memory-mapped."""

    def __init__(self, stem: Path, dtype: npt.DTypeLike, rows: int) -> None:
        self._offsets = _mapped(stem.with_suffix(".offsets"), np.int64, rows + 1)
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
        raise DataError(f"{path} cannot be read ({error.strerror}); delete {path.parent} to prepare it again") from None
    if actual != expected:
        raise DataError(
            f"{path} has {actual:,} bytes instead of {expected:,}; delete {path.parent} to prepare it again"
        )
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
    try:
        meta = json.loads((folder / META_FILE).read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{folder} is not a store of encoded pairs ({error}); delete it to prepare it again") from None
    if not isinstance(meta, dict) or meta.get("format") != STORE_FORMAT:
        raise DataError(f"{folder} was written by another version of Regard; delete it to prepare it again")
    return meta


class PairStoreWriter:
    """Writes a PairStore chunk by chunk. `folder` appears at `finish`; without it, nothing remains."""

    def __init__(self, folder: Path, vocab_size: int, with_text: bool, max_tokens: int) -> None:
        self.folder = folder
        self._temporary = temporary_cache_folder(folder)
        self._dtype = np.dtype(np.uint16 if vocab_size < 1 << 16 else np.uint32)
        self._with_text = with_text
        self._rows = 0
        self._max_tokens = max_tokens
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
            "max_tokens": self._max_tokens,
            "with_text": self._with_text,
            "notes": notes,
        }
        write_synced(self._temporary / META_FILE, json.dumps(meta, ensure_ascii=False).encode())
        publish_folder(self._temporary, self.folder)
        return PairStore(self.folder)

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
        self._values = stem.with_suffix(".values").open("wb")
        self._offsets = stem.with_suffix(".offsets").open("wb")
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
        for file in (self._values, self._offsets):
            file.flush()
            os.fsync(file.fileno())
            file.close()

    def abandon(self) -> None:
        self._values.close()
        self._offsets.close()
