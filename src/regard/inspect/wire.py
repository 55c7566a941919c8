"""How answers are serialised: dataclasses as JSON; arrays as one binary body with a JSON header.

    uint32 N, little-endian · N bytes of JSON · zeros up to a multiple of 8 · each array, with zeros to a multiple of 8

The header's "arrays" has an `ArrayEntry` per array. Numbers are little-endian, in row-major order. A number that is not
finite is null in JSON, and unchanged in an array.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

ALIGNMENT = 8


@dataclass(frozen=True)
class ArrayEntry:
    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int  # from the end of the padded header
    bytes: int  # without padding


def to_json(value: Any) -> bytes:
    """Dataclasses, mappings, sequences and plain values as JSON. A lone surrogate, as in a file's name, is escaped."""
    text = json.dumps(plain(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.encode("utf-8", "backslashreplace")


def plain(value: Any) -> Any:
    """Dataclasses become dictionaries, sequences lists, and numbers that JSON cannot represent None."""
    match value:
        case float():
            return value if math.isfinite(value) else None
        case str() | int() | None:
            return value
        case Mapping():
            return {key: plain(inner) for key, inner in value.items()}
        case Sequence():
            return [plain(inner) for inner in value]
        case np.generic():
            return plain(value.item())
        case _ if dataclasses.is_dataclass(value):
            return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
        case _:
            raise TypeError(f"{type(value).__name__} cannot be written as JSON")


def pack(header: Any, arrays: Mapping[str, np.ndarray]) -> bytes:
    """The binary body of a header, which is a dataclass or a mapping, and arrays."""
    entries, parts, offset = [], [], 0
    for name, array in arrays.items():
        content = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()
        entries.append(ArrayEntry(name, array.dtype.name, array.shape, offset, len(content)))
        parts.append(padded(content))
        offset += len(parts[-1])
    text = to_json({**plain(header), "arrays": entries})
    return b"".join([padded(len(text).to_bytes(4, "little") + text), *parts])


def padded(content: bytes) -> bytes:
    return content + bytes(-len(content) % ALIGNMENT)


def unpack(body: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The header and the arrays of a body."""
    size = int.from_bytes(body[:4], "little")
    header = json.loads(body[4 : 4 + size])
    start = len(padded(body[: 4 + size]))
    arrays = {}
    for one in header["arrays"]:
        count = math.prod(one["shape"])
        dtype = np.dtype(one["dtype"]).newbyteorder("<")
        arrays[one["name"]] = np.frombuffer(body, dtype, count, start + one["offset"]).reshape(one["shape"])
    return header, arrays
