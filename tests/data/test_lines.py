"""Lines that come in chunks: the same, wherever the chunks end."""

from __future__ import annotations

import gzip
import random
import sys
import tracemalloc
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from regard.data.lines import MAX_LINE, decode_blocks, decode_lines, read_lines, split_chunks, within_memory
from regard.errors import DataError


@given(st.lists(st.text("a\n我").map(str.encode)))
def test_chunks_end_anywhere(chunks: list[bytes]) -> None:
    whole = b"".join(chunks)
    blocks = [*split_chunks(chunks, "here")]
    assert [line for block in blocks for line in block] == whole.removesuffix(b"\n").split(b"\n") * bool(whole)
    assert all(blocks)  # none without a line
    decoded = [line for block in decode_blocks(blocks, "here") for line in block]
    assert decoded == [*decode_lines([line for block in blocks for line in block], "here")]


def test_a_chunk_gives_the_lines_that_it_ends() -> None:
    assert [*split_chunks([b"a\nb", b"c", b"d\n\ne\n", b"f"], "here")] == [[b"a"], [b"bcd", b"", b"e"], [b"f"]]


def test_lines_are_counted_from_the_first_block() -> None:
    blocks = decode_blocks([[b"\xef\xbb\xbfa"], [b"b", b"\xff"]], "here")
    assert [next(blocks), next(blocks)] == [["a"], ["b"]]
    with pytest.raises(DataError, match="here, line 3: byte 1 "):
        next(blocks)


@given(st.lists(st.binary(max_size=8)), st.integers(1, 6))
def test_a_line_has_a_greatest_length_wherever_chunks_end(chunks: list[bytes], longest: int) -> None:
    lines = b"".join(chunks).removesuffix(b"\n").split(b"\n") * bool(b"".join(chunks))
    good = next((at for at, line in enumerate(lines) if len(line) > longest), len(lines))
    found: list[bytes] = []
    error = ""
    try:
        for block in split_chunks(chunks, "here", longest):
            found += block
    except DataError as raised:
        error = str(raised)
    assert found == lines[:good]
    assert error.startswith(f"here, line {good + 1} is longer than" if good < len(lines) else "")
    assert bool(error) == (good < len(lines))


ZEROS = bytes(1_000_000)


def write_bomb(path: Path, content: bytes, times: int) -> Path:
    packed = zstandard.ZstdCompressor().compressobj()
    if path.suffix == ".gz":
        with gzip.open(path, "wb", compresslevel=1) as file:
            for _ in range(times):
                file.write(content)
    else:
        path.write_bytes(b"".join([*(packed.compress(content) for _ in range(times)), packed.flush()]))
    return path


@pytest.mark.parametrize("name", ["bomb.gz", "bomb.zst"])
def test_a_small_file_of_one_long_line_does_not_fill_the_memory(tmp_path: Path, name: str) -> None:
    path = write_bomb(tmp_path / name, ZEROS, 200)
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match=f"{name}, line 1 is longer than 10 MB"):
            next(read_lines(path))
        assert tracemalloc.get_traced_memory()[1] < 150e6  # of the 200 MB; Zstandard gives 64 MB at once
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", ["bomb.gz", "bomb.zst"])
def test_so_many_lines_are_not_kept_in_memory(tmp_path: Path, name: str) -> None:
    path = write_bomb(tmp_path / name, b"\n" * 100_000, 4)
    assert sum(1 for _ in read_lines(path)) == 400_000
    with pytest.raises(DataError, match=r"bomb has more text than fits into memory at once .* at line 156251"):
        within_memory(read_lines(path), "bomb", limit=10_000_000)


def test_a_file_without_an_end_is_refused() -> None:
    with pytest.raises(DataError, match="line 1 is longer"):
        next(read_lines(Path("/dev/zero")))


def test_a_whole_text_may_be_one_line(tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(b"a" * (MAX_LINE + 1))
    assert len(next(read_lines(tmp_path / "text", max_line=None))) == MAX_LINE + 1


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
def test_files_that_cannot_be_opened(tmp_path: Path, suffix: str) -> None:
    (tmp_path / f"folder{suffix}").mkdir()
    for name, said in (
        ("absent", f"there is no file {tmp_path}/absent{suffix}"),
        ("folder", f"{tmp_path}/folder{suffix} is a folder; give a text file"),
        ("a" * 300, f"{tmp_path}/{'a' * 300}{suffix} cannot be read: File name too long"),
    ):
        with pytest.raises(DataError) as raised:
            next(read_lines(tmp_path / f"{name}{suffix}"))
        assert str(raised.value) == said


def test_zstandard_is_optional(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(DataError, match=r"a\.zst is compressed with Zstandard; .* pip install 'regard\[zstd\]'"):
        next(read_lines(tmp_path / "a.zst"))


def test_the_lines_before_a_line_that_is_too_long_are_read(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("one\ntwo\ntoo long\nfour\n")
    lines = read_lines(tmp_path / "text", max_line=4)
    assert [next(lines), next(lines)] == ["one", "two"]
    with pytest.raises(DataError, match="text, line 3 is longer than"):
        next(lines)


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_a_damaged_file_is_one_sentence(tmp_path: Path, suffix: str) -> None:
    """Cut anywhere, or with any byte changed: the same lines, or an error that names the file."""
    chance, lines = random.Random(1), [f"line {number} {number**7}" for number in range(2000)]
    content = "".join(line + "\n" for line in lines).encode()
    options = zstandard.ZstdCompressor(write_checksum=True)
    whole = gzip.compress(content) if suffix == ".gz" else options.compress(content)
    path = tmp_path / f"damaged{suffix}"
    for _ in range(150):
        at = chance.randrange(1, len(whole))
        changed = bytearray(whole)
        changed[at] ^= 1 << chance.randrange(8)
        for damaged in (whole[:at], bytes(changed)):
            path.write_bytes(damaged)
            try:
                read: object = [*read_lines(path)]
            except DataError as error:
                read = str(error)
            assert read == lines or str(path) in str(read)
