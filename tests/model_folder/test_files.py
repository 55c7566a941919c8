"""Files of a folder that may come from anywhere: its own regular files, and nothing else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from regard.errors import ModelFolderError
from regard.model_folder.files import check_folder, check_name, digest_of, open_file, read_file


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "folder"
    path.mkdir()
    (path / "a").write_bytes(b"12345")
    (tmp_path / "outside").write_bytes(b"secret")
    return path


def refused(folder: Path, name: str) -> str:
    for read in (open_file, digest_of, lambda folder, name: read_file(folder, name, 100)):
        with pytest.raises(ModelFolderError) as caught:
            read(folder, name)
    assert str(folder) in str(caught.value)
    return str(caught.value)


def test_its_own_files(folder: Path) -> None:
    (folder / "link").symlink_to("a")
    assert read_file(folder, "a", 5) == read_file(folder, "link", 5) == b"12345"
    (folder.parent / "alias").symlink_to(folder)
    assert read_file(folder.parent / "alias", "a", 5) == b"12345"
    with pytest.raises(ModelFolderError, match="a is larger than 4 bytes"):
        read_file(folder, "a", 4)


def test_what_is_no_file_of_the_folder(folder: Path) -> None:
    assert "is incomplete: b is missing" in refused(folder, "b")
    os.mkfifo(folder / "fifo")
    assert "it is a FIFO, not a file" in refused(folder, "fifo")
    (folder / "inner").mkdir()
    assert "inner cannot be read: it is a folder, not a file" in refused(folder, "inner")
    (folder / "loop").symlink_to("loop")
    assert "loop cannot be read: Too many levels of symbolic links" in refused(folder, "loop")
    for number, target in enumerate(("../outside", folder.parent / "outside", "/dev/zero", "/proc/self/environ")):
        (folder / f"out{number}").symlink_to(target)
        assert "is a link out of the folder" in refused(folder, f"out{number}")
    assert read_file(folder, "out0", 10, [folder.parent]) == b"secret"


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../a", "/a", "a/../b", "a//b", "a/", "./a", "a\\b", "a\0", "a\x1b[2J"]
)
def test_names_of_no_file(name: str) -> None:
    with pytest.raises(ModelFolderError, match=r"SHA256SUMS names .*, which is not a file of this folder"):
        check_name(name, Path("SHA256SUMS"))


def test_names_of_files() -> None:
    for name in ("config.json", "training/state.json", "模型.json", "a b"):
        check_name(name, Path("SHA256SUMS"))


def test_what_is_no_folder(folder: Path) -> None:
    check_folder(folder)
    os.mkfifo(folder / "fifo")
    (folder / "loop").symlink_to("loop")
    for path, message in (
        (folder / "nothing", "there is no model folder at"),
        (folder / "a", "it is a file"),
        (folder / "fifo", "it is a FIFO"),
        (folder / "a" / "b", "there is no model folder at"),
        (folder / "loop", "Too many levels of symbolic links"),
        (folder / ("x" * 5000), "File name too long"),
        (Path("a\0b"), "null"),
    ):
        with pytest.raises(ModelFolderError, match=message):
            check_folder(path)


def test_a_file_whose_reading_fails() -> None:
    """The memory of this process, where nothing is at the address 0."""
    message = refused_by_reading(Path(f"/proc/{os.getpid()}"), "mem")
    assert message == f"/proc/{os.getpid()}/mem cannot be read: Input/output error"


def refused_by_reading(folder: Path, name: str) -> str:
    messages = set()
    for read in (digest_of, lambda folder, name: read_file(folder, name, 100)):
        with pytest.raises(ModelFolderError) as caught:
            read(folder, name)
        messages.add(str(caught.value))
    [message] = messages
    return message
