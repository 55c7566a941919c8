"""What is written is there whole, or not at all."""

from __future__ import annotations

import errno
import os
import secrets
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from regard.model_folder.atomic import (
    ABANDONED_SECONDS,
    atomic_file,
    atomic_folder,
    atomic_write,
    cache_files,
    is_free,
    publish_folder,
    remove_folder,
    remove_leftovers,
    swap,
    swap_by_two_renames,
    temporary_cache_folder,
    temporary_name,
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
def test_killed_between_two_renames_it_has_the_old_or_the_new(tmp_path: Path, renames: int) -> None:
    """A process that ends, as by kill -9, just after its first or second rename, where names cannot be exchanged."""
    place, new = tmp_path / "place", tmp_path / ".tmp-place-1"
    for folder, name in ((place, "old"), (new, "new")):
        folder.mkdir()
        (folder / name).write_text(name)
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
            swap_by_two_renames(place, new)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    assert place.exists() == (renames == 2)
    remove_leftovers(tmp_path)
    assert names(tmp_path) == ["place"]
    assert names(place) == (["old"] if renames == 1 else ["new"])


def replace_again_and_again(place: Path, times: int) -> None:
    for _ in range(times):
        with atomic_folder(place, replace=True) as folder:
            (folder / "first").write_text(folder.name)
            (folder / "second").write_text(folder.name)


READER = """
import os, sys
opened = 0
place = sys.argv[1]
print("ready", flush=True)
while not os.path.exists(place + ".end"):
    os.close(os.open(place, os.O_RDONLY | os.O_DIRECTORY))
    opened += 1
print(opened)
"""


def test_a_folder_is_never_missing_while_it_is_replaced(tmp_path: Path) -> None:
    """A process that opens it in a loop."""
    place = tmp_path / "model"
    replace_again_and_again(place, 1)
    command = [sys.executable, "-c", READER, str(place)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == "ready\n"
        for _ in range(500):
            (tmp_path / "new").mkdir()
            swap(place, tmp_path / "new")
        (tmp_path / "model.end").write_text("")
        said, errors = reader.communicate()
    assert (reader.returncode, errors) == (0, "")
    assert int(said) > 0
    assert names(tmp_path) == ["model", "model.end"]


@pytest.mark.parametrize("after", range(1, 11))
def test_killed_at_any_moment_it_has_the_old_or_the_new(tmp_path: Path, after: int) -> None:
    place = tmp_path / "place"
    replace_again_and_again(place, 1)
    progress, report = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            while True:
                replace_again_and_again(place, 1)
                os.write(report, b"1")
        finally:
            os._exit(1)
    for _ in range(after):
        os.read(progress, 1)
    os.kill(child, signal.SIGKILL)  # while it replaces once more
    os.waitpid(child, 0)
    for handle in (progress, report):
        os.close(handle)
    assert (place / "first").read_text() == (place / "second").read_text()
    replace_again_and_again(place, 1)  # which deletes what the killed process left
    assert names(tmp_path) == ["place"]


def test_what_another_process_is_writing_stays(tmp_path: Path) -> None:
    """Two at once, as two commands with one output: each has a folder of its own, and the last one stays."""
    with atomic_folder(tmp_path / "place", replace=True) as first:
        (first / "first").write_text("first")
        replace_again_and_again(tmp_path / "place", 1)
        remove_leftovers(tmp_path)
        assert names(first) == ["first"]
    assert names(tmp_path) == ["place"]
    assert names(tmp_path / "place") == ["first"]


def test_temporary_names_are_random_and_follow_no_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link of the very name, as one who guesses it would put there: it is an error, and the target stays."""
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "file").write_text("untouched")
    tokens = {temporary_name(tmp_path / "file").name for _ in range(1000)}
    assert len(tokens) == 1000
    assert all(len(token) == len(".tmp-file-") + 16 for token in tokens)
    monkeypatch.setattr(secrets, "token_hex", lambda size: "guessed")
    link = tmp_path / ".tmp-file-guessed"
    link.symlink_to(victim / "file")
    with pytest.raises(FileExistsError):
        atomic_write(tmp_path / "file", b"new")
    link.unlink()
    link.symlink_to(victim)
    for writing in (atomic_file, atomic_folder):
        with pytest.raises(FileExistsError), writing(tmp_path / "file"):
            pytest.fail("it was opened")
    assert names(victim) == ["file"]
    assert (victim / "file").read_text() == "untouched"


def test_a_link_is_replaced_and_what_it_leads_to_stays(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "file").write_text("untouched")
    (tmp_path / "model").symlink_to(tmp_path / "real")
    replace_again_and_again(tmp_path / "model", 1)
    assert not (tmp_path / "model").is_symlink()
    assert names(tmp_path) == ["model", "real"]
    assert names(tmp_path / "real") == ["file"]


def test_only_the_owner_may_read_a_cache(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        cache_files(tmp_path / "a" / "b" / "entry", {"file": b"x"})
    finally:
        os.umask(before)
    for folder in ("a", "a/b", "a/b/entry"):
        assert (tmp_path / folder).stat().st_mode & 0o777 == 0o700


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


def test_two_renames_leave_the_new_and_nothing_else(tmp_path: Path) -> None:
    for name in ("place", "new"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).write_text(name)
    swap_by_two_renames(tmp_path / "place", tmp_path / "new")
    assert names(tmp_path) == ["place"]
    assert names(tmp_path / "place") == ["new"]


def test_without_locks_the_age_tells_whether_a_folder_is_abandoned(tmp_path: Path) -> None:
    """A handle that only stands for a path cannot be locked, as on a file system without locks."""
    handle = os.open(tmp_path, os.O_PATH)
    try:
        assert not is_free(handle, tmp_path)
        before = time.time() - 2 * ABANDONED_SECONDS
        os.utime(tmp_path, (before, before))
        assert is_free(handle, tmp_path)
    finally:
        os.close(handle)


def test_only_old_leftovers_of_a_cache_are_deleted(tmp_path: Path) -> None:
    before = time.time() - 2 * ABANDONED_SECONDS
    for name in (".old", ".new", ".unknown"):
        (tmp_path / name).mkdir()
        if name == ".unknown":  # a file of it cannot be looked at: its age is not known
            (tmp_path / name / "gone").symlink_to(tmp_path / "nowhere")
        if name != ".new":
            os.utime(tmp_path / name, (before, before))
    made = temporary_cache_folder(tmp_path / "entry")
    assert names(tmp_path) == sorted([".new", ".unknown", made.name])


def test_a_cache_entry_that_cannot_get_its_name_is_an_error(tmp_path: Path) -> None:
    made = temporary_cache_folder(tmp_path / "entry")
    with pytest.raises(OSError, match="No such file or directory") as caught:
        publish_folder(made, tmp_path / "absent" / "entry")
    assert caught.value.errno == errno.ENOENT
    assert names(tmp_path) == [made.name]
