"""Entries of the cache: what is refused, and what is left on disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.data.content_cache import content_hash, read_entry, set_aside, write_entry
from regard.errors import DataError
from regard.model_folder.checked_json import DamagedFileError


def test_an_entry_comes_back(tmp_path: Path) -> None:
    write_entry(tmp_path / "entry", {"a": b"one", "b": b""})
    assert read_entry(tmp_path / "entry") == {"a": b"one", "b": b""}


def test_an_entry_of_another_version_is_damaged(tmp_path: Path) -> None:
    write_entry(tmp_path / "entry", {"a": b"one"})
    (tmp_path / "entry" / "entry.json").write_text('{"format": 1, "sums": {}}')
    with pytest.raises(DamagedFileError, match=r"entry\.json is damaged: it has no checksum, or is of another version"):
        read_entry(tmp_path / "entry")


def test_a_cache_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"no folder")
    with pytest.raises(DataError, match=r"file/entry could not be written: .*Free disk space, or set REGARD_CACHE"):
        write_entry(tmp_path / "file" / "entry", {"a": b"one"})
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_file_that_is_not_there_has_no_hash(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="absent cannot be read: No such file or directory"):
        content_hash(tmp_path / "absent")


def test_setting_aside(tmp_path: Path) -> None:
    (tmp_path / "entry").mkdir()
    aside = set_aside(tmp_path / "entry")
    assert [*tmp_path.iterdir()] == [aside]
    assert not set_aside(tmp_path / "entry").exists()  # another process was faster
    long = tmp_path / ("a" * 250)
    long.mkdir()
    with pytest.raises(DataError, match=r"a is damaged and cannot be renamed \(File name too long\); delete it"):
        set_aside(long)
    assert long.is_dir()
