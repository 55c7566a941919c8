"""The one property of a SentencePiece model that its library does not expose: whether it is BPE or unigram.

A model file is a protocol buffer. To avoid depending on the protobuf package for one number, this parses the wire
format (https://protobuf.dev/programming-guides/encoding): ModelProto.trainer_spec is field 2, and
TrainerSpec.model_type field 3 (1 unigram, the default; 2 BPE).
"""

from __future__ import annotations

from collections.abc import Iterator

_TRAINER_SPEC = 2
_MODEL_TYPE = 3
_KINDS = {1: "unigram", 2: "bpe", 3: "word", 4: "char"}


def model_kind(proto: bytes) -> str:
    """ "bpe", "unigram", "word" or "char"; ValueError if these bytes are not a whole protocol buffer."""
    model_type = 1
    for field, value in _fields(proto):
        if field == _TRAINER_SPEC and isinstance(value, bytes):
            for inner, setting in _fields(value):
                if inner == _MODEL_TYPE and isinstance(setting, int):
                    model_type = setting
    return _KINDS.get(model_type, "unknown")


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0
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
