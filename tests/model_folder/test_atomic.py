"""What is written is there whole, or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from regard.model_folder.atomic import (
    atomic_file,
    atomic_folder,
    atomic_write,
    publish_folder,
    remove_folder,
    remove_leftovers,
    swap,
    temporary_cache_folder,
)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_what_is_written_may_be_read_by_whom_the_umask_lets(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        with atomic_folder(tmp_path / "model") as folder:
            (folder / "training").mkdir()
            save_file({"a": np.zeros(2)}, folder / "training" / "weights.safetensors")
    finally:
        os.umask(before)
    assert (tmp_path / "model" / "training" / "weights.safetensors").stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "model" / "training").stat().st_mode & 0o777 == 0o750


def fail_halfway(place: Path, error: BaseException, replace: bool) -> None:
    with atomic_folder(place, replace) as folder:
        (folder / "new").write_text("new")
        raise error


def test_a_folder_appears_when_it_is_whole(tmp_path: Path) -> None:
    place = tmp_path / "deep" / "a folder 文件夹"
    with atomic_folder(place) as folder:
        (folder / "inner").mkdir()
        (folder / "inner" / "file").write_text("x")
        assert not place.exists()
    assert (place / "inner" / "file").read_text() == "x"
    assert names(place.parent) == [place.name]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("replace", [True, False])
def test_an_exception_leaves_nothing(tmp_path: Path, error: type[BaseException], replace: bool) -> None:
    with pytest.raises(error):
        fail_halfway(tmp_path / "place", error(), replace)
    assert names(tmp_path) == []


def test_an_exception_leaves_what_was_there(tmp_path: Path) -> None:
    with atomic_folder(tmp_path / "place") as folder:
        (folder / "old").write_text("old")
    with pytest.raises(ValueError, match="no"):
        fail_halfway(tmp_path / "place", ValueError("no"), replace=True)
    assert names(tmp_path) == ["place"]
    assert names(tmp_path / "place") == ["old"]


def test_replacing_leaves_nothing_of_the_old(tmp_path: Path) -> None:
    for name in ("old", "new"):
        with atomic_folder(tmp_path / "place", replace=True) as folder:
            (folder / name).write_text(name)
    assert names(tmp_path) == ["place"]
    assert names(tmp_path / "place") == ["new"]


def test_without_being_asked_to_it_does_not_replace(tmp_path: Path) -> None:
    (tmp_path / "place").mkdir()
    (tmp_path / "place" / "old").write_text("old")
    with pytest.raises(OSError, match="not empty"), atomic_folder(tmp_path / "place") as folder:
        (folder / "new").write_text("new")
    assert names(tmp_path) == ["place"]
    assert names(tmp_path / "place") == ["old"]


def test_when_the_new_cannot_be_put_in_place_the_old_comes_back(tmp_path: Path) -> None:
    (tmp_path / "place").mkdir()
    (tmp_path / "place" / "old").write_text("old")
    with pytest.raises(FileNotFoundError):
        swap(tmp_path / "place", tmp_path / "there is no such folder")
    assert names(tmp_path) == ["place"]
    assert names(tmp_path / "place") == ["old"]


@pytest.mark.parametrize("renames", [1, 2])
def test_killed_while_replacing_it_has_the_old_or_the_new(tmp_path: Path, renames: int) -> None:
    """A process that ends, as by kill -9, just after its first or second rename."""
    place = tmp_path / "place"
    place.mkdir()
    (place / "old").write_text("old")
    child = os.fork()
    if child == 0:
        done = 0
        rename = Path.rename

        def ending(path: Path, target: Path) -> Path:
            nonlocal done
            rename(path, target)
            done += 1
            if done == renames:
                os._exit(9)
            return target

        try:
            Path.rename = ending  # type: ignore[method-assign,assignment]
            with atomic_folder(place, replace=True) as folder:
                (folder / "new").write_text("new")
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    assert place.exists() == (renames == 2)
    remove_leftovers(tmp_path)
    assert names(tmp_path) == ["place"]
    assert names(place) == (["old"] if renames == 1 else ["new"])


def test_a_file_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "file"
    for content in (b"old", b"new"):
        atomic_write(path, content)
        assert path.read_bytes() == content
    assert names(path.parent) == ["file"]


def test_a_file_keeps_its_content_when_writing_fails(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with pytest.raises(TypeError):
        atomic_write(path, "not bytes")  # type: ignore[arg-type]
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["file"]


def test_a_file_does_not_take_the_place_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "place").mkdir()
    with pytest.raises(IsADirectoryError):
        atomic_write(tmp_path / "place", b"new")
    assert names(tmp_path) == ["place"]


def test_leftovers_go_and_the_rest_stays(tmp_path: Path) -> None:
    (tmp_path / ".tmp-folder-1").mkdir()
    (tmp_path / ".tmp-folder-1" / "half").write_text("x")
    (tmp_path / ".tmp-file-1").write_text("x")
    (tmp_path / ".replaced-kept").mkdir()
    (tmp_path / "kept").mkdir()
    (tmp_path / ".hidden").write_text("x")
    remove_leftovers(tmp_path)
    assert names(tmp_path) == [".hidden", "kept"]


def test_removing_a_folder(tmp_path: Path) -> None:
    (tmp_path / "gone" / "inner").mkdir(parents=True)
    (tmp_path / "gone" / "inner" / "file").write_text("x")
    remove_folder(tmp_path / "gone")
    assert names(tmp_path) == []


def test_a_file_appears_when_it_is_complete(tmp_path: Path) -> None:
    with atomic_file(tmp_path / "deep" / "file") as temporary:
        temporary.write_text("x")
        assert not (tmp_path / "deep" / "file").exists()
    assert (tmp_path / "deep" / "file").read_text() == "x"
    assert names(tmp_path / "deep") == ["file"]


def test_an_error_leaves_the_previous_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old")
    with pytest.raises(FileNotFoundError), atomic_file(tmp_path / "file"):
        (tmp_path / "absent").read_bytes()
    with pytest.raises(FileNotFoundError), atomic_file(tmp_path / "file"):
        pass  # nothing was written
    assert (tmp_path / "file").read_text() == "old"
    assert names(tmp_path) == ["file"]


def test_two_writers_of_a_cache_entry_keep_the_first(tmp_path: Path) -> None:
    first, second = (temporary_cache_folder(tmp_path / "entry") for _ in range(2))
    for folder in (first, second):
        (folder / "file").write_text(folder.name)
    publish_folder(first, tmp_path / "entry")
    publish_folder(second, tmp_path / "entry")
    assert (tmp_path / "entry" / "file").read_text() == first.name
    assert names(tmp_path) == ["entry"]
