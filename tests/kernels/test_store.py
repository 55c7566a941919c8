"""Which compiled libraries are loaded: those of this user, as they were written; of all others, why not."""

from __future__ import annotations

import ctypes
import json
import os
import random
import shutil
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.kernels import store
from regard.kernels.bindings import Library
from regard.kernels.compiler import find_compiler, fingerprint
from regard.kernels.loader import NativeLibrary, NoKernelsError, load
from regard.kernels.store import LIBRARY, MANIFEST, DamagedError, UnsafeError, check_private, describe

Ask = Callable[[NativeLibrary | None], int]
STRANGER = 4242
NOT_USED = "the cache of compiled kernels is not used: "


def key_of(answer: Library) -> str:
    return fingerprint(answer, find_compiler())


def modes(folder: Path) -> set[int]:
    return {stat.S_IMODE(path.stat().st_mode) for path in (folder, *folder.rglob("*"))}


def plant(answer: Library, place: Path, marker: Path) -> None:
    """A library that writes `marker` when it is loaded, with a manifest that is right."""
    source = marker.with_suffix(".cpp")
    source.write_text(
        answer.source.read_text().replace("42", "666")
        + f'#include <fcntl.h>\n__attribute__((constructor)) void plant() {{ creat("{marker}", 0600); }}\n'
    )
    place.mkdir(parents=True)
    headers = Path(store.__file__).parent
    subprocess.run(["g++", "-shared", "-fPIC", f"-I{headers}", source, "-o", place / LIBRARY], check=True)
    (place / LIBRARY).chmod(0o600)
    (place / MANIFEST).write_bytes(describe(key_of(answer), (place / LIBRARY).read_bytes()))
    (place / MANIFEST).chmod(0o600)


def test_only_the_owner_may_read_or_write_it(answer: Library, cache: Path, ask: Ask) -> None:
    before = os.umask(0)
    try:
        assert ask(load(answer)) == 42
    finally:
        os.umask(before)
    assert modes(cache.parent) == {0o700, 0o600}
    manifest = json.loads((cache / key_of(answer) / MANIFEST).read_text())
    assert manifest["key"] == key_of(answer)


def test_a_planted_library_in_a_folder_of_our_own_would_be_loaded(answer: Library, cache: Path, ask: Ask) -> None:
    """What the other tests rely on: where nobody else can write, the manifest is all that is asked for."""
    marker = cache.parent.parent / "marker"
    plant(answer, cache / key_of(answer), marker)
    assert ask(load(answer)) == 666
    assert marker.exists()


def in_a_folder_that_all_may_write_to(cache: Path, place: Path) -> str:
    cache.chmod(0o777)
    return f"others may write to {cache} (mode 777): chmod go-w {cache}"


def in_a_cache_that_all_may_write_to(cache: Path, place: Path) -> str:
    cache.parent.chmod(0o1777)
    return f"others may write to {cache.parent} (mode 1777): chmod go-w {cache.parent}"


def in_an_entry_that_the_group_may_write_to(cache: Path, place: Path) -> str:
    place.chmod(0o770)
    return f"others may write to {place} (mode 770): chmod go-w {place}"


def in_a_library_that_all_may_write_to(cache: Path, place: Path) -> str:
    (place / LIBRARY).chmod(0o666)
    return f"others may write to {place / LIBRARY} (mode 666): chmod go-w {place / LIBRARY}"


def as_a_link_to_a_library(cache: Path, place: Path) -> str:
    (place / LIBRARY).rename(cache.parent.parent / "elsewhere.so")
    (place / LIBRARY).symlink_to(cache.parent.parent / "elsewhere.so")
    return f"{place / LIBRARY} is a symbolic link, which may lead anywhere: delete it"


def as_a_link_to_an_entry(cache: Path, place: Path) -> str:
    place.rename(cache.parent.parent / "elsewhere")
    place.symlink_to(cache.parent.parent / "elsewhere")
    return f"{place} is a symbolic link, which may lead anywhere: delete it"


def as_a_link_to_a_folder(cache: Path, place: Path) -> str:
    cache.rename(cache.parent.parent / "elsewhere")
    cache.symlink_to(cache.parent.parent / "elsewhere")
    return f"{cache} is a symbolic link, which may lead anywhere: delete it"


def as_a_pipe(cache: Path, place: Path) -> str:
    (place / LIBRARY).unlink()
    os.mkfifo(place / LIBRARY, 0o600)
    return f"{place / LIBRARY} is not a regular file: delete it"


PLANTED = [
    in_a_folder_that_all_may_write_to,
    in_a_cache_that_all_may_write_to,
    in_an_entry_that_the_group_may_write_to,
    in_a_library_that_all_may_write_to,
    as_a_link_to_a_library,
    as_a_link_to_an_entry,
    as_a_link_to_a_folder,
    as_a_pipe,
]


@pytest.mark.parametrize("how", PLANTED)
def test_a_planted_library_is_not_loaded(
    answer: Library,
    cache: Path,
    ask: Ask,
    how: Callable[[Path, Path], str],
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
) -> None:
    """It is compiled into a temporary folder, and what is wrong is said."""
    place = cache / key_of(answer)
    plant(answer, place, tmp_path / "marker")
    reason = how(cache, place)
    native = load(answer)
    assert ask(native) == 42
    assert native.not_stored == reason
    assert ask(load(answer)) == 42  # not compiled again in this process
    assert not (tmp_path / "marker").exists()
    assert [message for message in caplog.messages if message.startswith(NOT_USED + reason)] == caplog.messages[:1]
    assert len(caplog.messages) == 1


def test_what_belongs_to_another_user_is_refused(tmp_path: Path) -> None:
    for owner, safe in ((os.geteuid(), True), (0, True), (STRANGER, False)):
        status = os.stat_result((stat.S_IFREG | 0o600, 1, 1, 1, owner, 1, 1, 0, 0, 0))
        if safe:
            check_private(tmp_path, status, folder=False)
        else:
            with pytest.raises(UnsafeError, match=f"belongs to another user .number {STRANGER}.: .* REGARD_CACHE"):
                check_private(tmp_path, status, folder=False)


def replace(path: Path, content: bytes) -> None:
    """A new file in its place: this process runs the old one, which must stay as it is."""
    path.unlink()
    path.write_bytes(content)


def test_a_damaged_library_is_compiled_again(
    answer: Library, cache: Path, ask: Ask, caplog: pytest.LogCaptureFixture
) -> None:
    damages: list[Callable[[Path], object]] = [
        lambda place: replace(place / LIBRARY, (place / LIBRARY).read_bytes()[:5000]),
        lambda place: replace(place / LIBRARY, b""),
        lambda place: (place / LIBRARY).unlink(),
        lambda place: (place / MANIFEST).unlink(),
        lambda place: (place / MANIFEST).write_text("{}"),
    ]
    place = cache / key_of(answer)
    load(answer)
    for damage in damages:
        caplog.clear()
        damage(place)
        native = load(answer)
        assert (ask(native), native.not_stored) == (42, "")
        (message,) = caplog.messages
        assert str(place) in message
        assert message.endswith("It is deleted and compiled again")


@pytest.fixture(scope="module")
def entry(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an entry named `key`; its library need not be one."""
    content = random.Random(1).randbytes(20_000)
    folder = tmp_path_factory.mktemp("kernels") / "private"
    os.close(store.add_library(folder, "key", lambda path: (path.write_bytes(content), None)[1], lambda handle: None))
    return folder / "key"


@given(where=st.floats(0, 1, exclude_max=True), name=st.sampled_from([LIBRARY, MANIFEST]))
def test_any_flipped_bit_is_found(entry: Path, where: float, name: str) -> None:
    whole = (entry / name).read_bytes()
    bit = int(where * 8 * len(whole))
    changed = bytearray(whole)
    changed[bit // 8] ^= 1 << bit % 8
    try:
        (entry / name).write_bytes(changed)
        with pytest.raises(DamagedError, match="is damaged"):
            store.open_library(entry.parent, entry.name)
    finally:
        (entry / name).write_bytes(whole)
    handle = store.open_library(entry.parent, entry.name)
    assert handle is not None
    os.close(handle)


def test_what_is_loaded_is_what_was_checked(answer: Library, cache: Path, ask: Ask, tmp_path: Path) -> None:
    """Another library takes its name between the check and the loading."""
    place = cache / key_of(answer)
    load(answer)
    handle = store.open_library(cache, key_of(answer))
    assert handle is not None
    shutil.rmtree(place)
    plant(answer, place, tmp_path / "marker")
    compiled = ctypes.CDLL(f"/proc/self/fd/{handle}")
    found = ctypes.c_int64()
    compiled.regard_answer(ctypes.byref(found))
    assert found.value == 42
    assert not (tmp_path / "marker").exists()


def test_where_nothing_can_be_stored_a_temporary_folder_is_used(
    answer: Library, cache: Path, ask: Ask, caplog: pytest.LogCaptureFixture
) -> None:
    cache.parent.write_text("a file where the folder should be")
    native = load(answer)
    assert ask(native) == 42
    (message,) = caplog.messages
    assert message.startswith(NOT_USED + "nothing can be stored there: ")
    assert str(cache.parent) in message


FULL = """#!/bin/sh
case "$*" in *" -o {cache}"*) echo "ld: final link failed: No space left on device" >&2; exit 1;; esac
exec g++ "$@"
"""


def test_on_a_full_disk_a_temporary_folder_is_used(
    answer: Library, cache: Path, ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A compiler that finds no space in the cache."""
    compiler = tmp_path / "full"
    compiler.write_text(FULL.format(cache=cache))
    compiler.chmod(0o700)
    monkeypatch.setenv("CXX", str(compiler))
    native = load(answer)
    assert ask(native) == 42
    assert "nothing can be stored there: [Errno 28] No space left on device" in native.not_stored
    assert list(cache.iterdir()) == []


def test_where_nothing_can_be_stored_at_all_there_are_no_kernels(
    answer: Library, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.parent.write_text("a file where the folder should be")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "no such folder"))
    with pytest.raises(
        NoKernelsError, match=r"neither in the cache \(.*\) nor in a temporary folder \(.*no such folder"
    ):
        load(answer)


def test_without_a_home_a_temporary_folder_is_used(answer: Library, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere() -> Path:
        raise RuntimeError("Could not determine home directory.")

    for name in ("REGARD_CACHE", "REGARD_KERNELS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", nowhere)
    native = load(answer)
    assert ask(native) == 42
    assert "Could not determine home directory" in native.not_stored
