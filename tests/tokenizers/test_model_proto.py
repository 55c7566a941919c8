"""What a SentencePiece model file says of itself, read from its bytes."""

from __future__ import annotations

import pytest

from regard.tokenizers.model_proto import model_kind, refusal_of_proto
from regard.tokenizers.training import train_vocabulary

PLAIN = train_vocabulary(["the cat sat"] * 5, "bpe", 290).proto
NORMALIZER, PIECE = b"\x1a", b"\x0a"  # fields 3 and 1 of a model: messages with their length


@pytest.mark.parametrize(
    ("more", "refusal"),
    [
        (b"", None),
        (NORMALIZER + b"\x02\x28\x01", None),  # escape_whitespaces = true
        (NORMALIZER + b"\x02\x28\x00", "a tokenizer that does not mark spaces"),
        (PIECE + b"\x05\x0a\x01x\x18\x01", None),  # a normal piece "x"
        (PIECE + b"\x05\x0a\x01x\x18\x05", "a tokenizer with unused pieces"),
        (b"\x7d1234\x7912345678", None),  # unknown fields of 4 and 8 bytes
    ],
)
def test_what_is_not_plain_is_refused(more: bytes, refusal: str | None) -> None:
    assert refusal_of_proto(PLAIN + more) == refusal


@pytest.mark.parametrize(
    ("damaged", "said"),
    [
        (b"\x12", "cut off at byte 1"),
        (b"\x12\x80", "cut off at byte 2"),
        (b"\x12\x05ab", "cut off at byte 4"),
        (b"\x0a\x7fab", "cut off at byte 4"),
        (b"\x13", "unknown wire type 3 at byte 1"),
    ],
)
def test_damaged_bytes_are_named(damaged: bytes, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        model_kind(damaged)
