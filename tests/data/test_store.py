"""Stores give back what was written, and are never half there."""

import os
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.store import Ids, PairStore, PairStoreWriter
from regard.errors import DataError
from regard.model_folder.atomic import ABANDONED_SECONDS, temporary_cache_folder
from regard.model_folder.checked_json import checked, read_checked, sums_of

ROW = st.lists(st.integers(0, 65534), max_size=5)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
CHUNKS = st.lists(st.lists(st.tuples(ROW, ROW, TEXT, TEXT), max_size=4), max_size=4)


def write(folder: Path, vocab_size: int = 65535, with_text: bool = True) -> PairStore:
    with PairStoreWriter(folder, vocab_size, with_text, max_tokens=256) as writer:
        writer.append([[5, 6], [7]], [[8], [9, 10, 11]], [("a", "b"), ("我", "")])
        return writer.finish({"kept": 2})


@settings(max_examples=50, deadline=None)
@given(CHUNKS)
def test_what_was_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, chunks: list[list[tuple[list[int], list[int], str, str]]]
) -> None:
    folder = tmp_path_factory.mktemp("store") / "entry"
    with PairStoreWriter(folder, 65535, with_text=True, max_tokens=256) as writer:
        for chunk in chunks:
            writer.append([row[0] for row in chunk], [row[1] for row in chunk], [(row[2], row[3]) for row in chunk])
        writer.finish({})
    store = PairStore(folder)
    rows = [row for chunk in chunks for row in chunk]
    read = [
        (store.src[i].tolist(), store.tgt[i].tolist(), store.src_text(i), store.tgt_text(i)) for i in range(len(store))
    ]
    assert read == rows
    assert store.src.lengths().tolist() == [len(row[0]) for row in rows]
    assert store.tgt.lengths(1, 3).tolist() == [len(row[1]) for row in rows[1:3]]
    assert store.max_tokens == 256


def test_types_and_notes(tmp_path: Path) -> None:
    small, large = write(tmp_path / "small"), write(tmp_path / "large", vocab_size=65536, with_text=False)
    assert small.src[0].dtype == np.uint16
    assert large.src[0].dtype == np.uint32
    assert small.notes == {"kept": 2}
    assert (small.has_text, large.has_text) == (True, False)
    assert not (tmp_path / "large" / "src_text.values").exists()
    with pytest.raises(IndexError):
        small.src[2]
    with pytest.raises(IndexError):
        small.src[-1]


def test_an_unfinished_store_leaves_nothing(tmp_path: Path) -> None:
    with PairStoreWriter(tmp_path / "entry", 100, with_text=False, max_tokens=256) as writer:
        writer.append([[1]], [[2]], [])
    assert list(tmp_path.iterdir()) == []


def test_the_first_of_two_writers_wins(tmp_path: Path) -> None:
    with PairStoreWriter(tmp_path / "entry", 100, with_text=False, max_tokens=256) as slow:
        slow.append([[1]], [[2]], [])
        write(tmp_path / "entry")
        assert len(slow.finish({})) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["entry"]


def test_a_damaged_store_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "entry")
    with (tmp_path / "entry" / "src.values").open("ab") as file:
        file.write(b"more")
    with pytest.raises(DataError, match=r"src\.values was altered or damaged: it does not match its checksum"):
        PairStore(tmp_path / "entry")
    (tmp_path / "entry" / "src.values").unlink()
    with pytest.raises(DataError, match=r"src\.values cannot be read"):
        PairStore(tmp_path / "entry")
    (tmp_path / "entry" / "store.json").write_text('{"format": 99}')
    with pytest.raises(DataError, match="written by another version of Regard"):
        PairStore(tmp_path / "entry")
    (tmp_path / "entry" / "store.json").write_text("{")
    with pytest.raises(DataError, match=r"store\.json is damaged: it is not JSON"):
        PairStore(tmp_path / "entry")


def rewrite(folder: Path, name: str, content: bytes) -> None:
    """Replace a file and its checksum: what a checksum cannot tell is checked, too."""
    (folder / name).write_bytes(content)
    meta, _ = read_checked(folder / "store.json")
    meta["sums"] = sums_of(folder, meta["sums"])
    (folder / "store.json").write_bytes(checked(meta))


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("src.offsets", np.array([0, 5, 3]), r"src\.offsets is damaged: offsets begin with 0 and never fall"),
        ("src.offsets", np.array([1, 2, 3]), r"src\.offsets is damaged"),
        ("src.offsets", np.array([0, -1, 3]), r"src\.offsets is damaged"),
        ("src.offsets", np.array([0, 2, 1 << 40]), r"src\.values has 6 bytes instead"),
        ("src.offsets", np.array([0, 3]), r"src\.offsets has 16 bytes instead of 24"),
        ("tgt.values", np.array([8, 9, 10, 65535], np.uint16), r"tgt\.values is damaged: it has token ids beyond"),
    ],
)
def test_offsets_and_ids_out_of_range_are_refused(tmp_path: Path, name: str, content: Ids, said: str) -> None:
    write(tmp_path / "entry")
    rewrite(tmp_path / "entry", name, content.tobytes())
    with pytest.raises(DataError, match=said):
        PairStore(tmp_path / "entry")


def test_a_store_that_does_not_list_all_of_its_files_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "entry")
    meta, _ = read_checked(tmp_path / "entry" / "store.json")
    del meta["sums"]["tgt.offsets"]
    (tmp_path / "entry" / "store.json").write_bytes(checked(meta))
    (tmp_path / "entry" / "tgt.offsets").unlink()
    with pytest.raises(DataError, match=r"tgt\.offsets cannot be read \(No such file or directory\)"):
        PairStore(tmp_path / "entry")


def test_a_writer_names_the_damaged_store_of_a_faster_one(tmp_path: Path) -> None:
    with PairStoreWriter(tmp_path / "entry", 100, with_text=False, max_tokens=256) as slow:
        slow.append([[1]], [[2]], [])
        write(tmp_path / "entry")
        (tmp_path / "entry" / "src.values").write_bytes(b"other")
        with pytest.raises(DataError, match=r"src\.values was altered .*; run the command again, and it is set aside"):
            slow.finish({})
    assert [path.name for path in tmp_path.iterdir()] == ["entry"]


def test_leftovers_of_crashed_processes_are_deleted(tmp_path: Path) -> None:
    abandoned, busy = temporary_cache_folder(tmp_path / "entry"), temporary_cache_folder(tmp_path / "entry")
    for path in (abandoned / "src.values", busy / "src.values"):
        path.write_bytes(b"half")
    long_ago = time.time() - ABANDONED_SECONDS - 60
    for path in (abandoned / "src.values", abandoned, busy):
        os.utime(path, (long_ago, long_ago))
    temporary_cache_folder(tmp_path / "entry")
    assert not abandoned.exists()
    assert busy.exists()
