"""The properties of a SentencePiece model that its library does not expose, such as whether it is BPE or unigram.

A model file is a protocol buffer. To avoid depending on the protobuf package for a few numbers, this parses the wire
format (https://protobuf.dev/programming-guides/encoding). Field numbers are those of sentencepiece_model.proto: a
ModelProto has pieces (1), trainer_spec (2) and normalizer_spec (3).
"""

from __future__ import annotations

from collections.abc import Iterator

_PIECE, _TRAINER_SPEC, _NORMALIZER_SPEC = 1, 2, 3
_MODEL_TYPE, _SPACE_AS_SUFFIX, _BYTE_FALLBACK = 3, 24, 35  # of the trainer_spec; model_type 1 is unigram, the default
_CHARSMAP, _ESCAPE_SPACES = 2, 5  # of the normalizer_spec
_PIECE_TYPE, _UNUSED = 3, 5  # of a piece
_PIECE_KEY = 0x0A  # field 1, of a length that follows
_KINDS = {1: "unigram", 2: "bpe", 3: "word", 4: "char"}


def model_kind(proto: bytes) -> str:
    """ "bpe", "unigram", "word" or "char"; ValueError if these bytes are not a whole protocol buffer."""
    number = _settings(proto, _TRAINER_SPEC).get(_MODEL_TYPE, 1)
    return _KINDS.get(number, "unknown") if isinstance(number, int) else "unknown"


def refusal_of_proto(proto: bytes) -> str | None:
    """Why a model is not plain BPE or unigram with byte fallback, such as Regard trains; None: it is."""
    kind, trainer, normalizer = model_kind(proto), _settings(proto, _TRAINER_SPEC), _settings(proto, _NORMALIZER_SPEC)
    if kind not in ("bpe", "unigram"):
        return f"a tokenizer of the kind {kind!r}"
    if not trainer.get(_BYTE_FALLBACK):
        return "a tokenizer without byte fallback"
    if trainer.get(_SPACE_AS_SUFFIX):
        return "a tokenizer with the space mark behind words"
    if normalizer.get(_CHARSMAP):
        return "a tokenizer with rules of normalisation of its own"
    if normalizer.get(_ESCAPE_SPACES) == 0:
        return "a tokenizer that does not mark spaces"
    pieces = (value for field, value in _fields(proto) if field == _PIECE and isinstance(value, bytes))
    if any(dict(_fields(piece)).get(_PIECE_TYPE) == _UNUSED for piece in pieces):
        return "a tokenizer with unused pieces"
    return None


def _settings(proto: bytes, message: int) -> dict[int, int | bytes]:
    """The fields of a message within the model; of repeated ones the last."""
    found: dict[int, int | bytes] = {}
    at = 0
    while at + 1 < len(proto) and proto[at] == _PIECE_KEY and proto[at + 1] < 0x80:  # thousands of pieces come first
        at += 2 + proto[at + 1]
    for field, value in _fields(proto, at):
        if field == message and isinstance(value, bytes):
            found.update(_fields(value))
    return found


def _fields(message: bytes, at: int = 0) -> Iterator[tuple[int, int | bytes]]:
    if at > len(message):
        raise ValueError(f"cut off at byte {len(message)}")
    while at < len(message):
        key, at = _varint(message, at)
        match key & 7:
            case 0:
                value, at = _varint(message, at)
                yield key >> 3, value
                continue
            case 1:
                size = 8
            case 2:
                size, at = _varint(message, at)
            case 5:
                size = 4
            case wire_type:
                raise ValueError(f"unknown wire type {wire_type} at byte {at}")
        if at + size > len(message):
            raise ValueError(f"cut off at byte {len(message)}")
        yield key >> 3, message[at : at + size]
        at += size


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(message):
            raise ValueError(f"cut off at byte {len(message)}")
        value |= (message[at] & 0x7F) << shift
        at += 1
        if message[at - 1] < 0x80:
            return value, at
    raise ValueError(f"unterminated varint at byte {at}")
