"""Lines that come in chunks: the same, wherever the chunks end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.lines import decode_blocks, decode_lines, split_chunks
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
