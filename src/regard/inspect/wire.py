"""Numbers on their way to a page: a JSON header, then the arrays, in one body.

    uint32 N, little-endian · N bytes of JSON · zeros up to a multiple of 8 · each array, with zeros to a multiple of 8

The header's "arrays" says of each its name, dtype, shape, and where it lies: `offset` counts from the end of the
padded header, `bytes` is its size without padding. Numbers are little-endian, rows first. What is not finite is null
in JSON and itself in an array.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

ALIGNMENT = 8


def to_json(value: Any) -> bytes:
    return json.dumps(finite(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def finite(value: Any) -> Any:
    """The same, with null for numbers that JSON cannot write."""
    match value:
        case float():
            return value if math.isfinite(value) else None
        case str() | int() | None:
            return value
        case Mapping():
            return {key: finite(inner) for key, inner in value.items()}
        case Sequence():
            return [finite(inner) for inner in value]
        case np.generic():
            return finite(value.item())
        case _:
            raise TypeError(f"{type(value).__name__} has no place in JSON")


def pack(header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> bytes:
    """The body of these arrays; `header` may say more."""
    described, parts, offset = [], [], 0
    for name, array in arrays.items():
        content = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()
        described.append(
            {
                "name": name,
                "dtype": array.dtype.name,
                "shape": list(array.shape),
                "offset": offset,
                "bytes": len(content),
            }
        )
        parts.append(padded(content))
        offset += len(parts[-1])
    text = to_json({**header, "arrays": described})
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
