"""The weights of a model: a safetensors file in float32 or bf16, read and written without torch.

bf16 is the upper half of a float32: the same exponent, 8 bits of precision instead of 24. numpy has no such type, so
the halves are written and read as 16-bit integers; rounding is to nearest, ties to even. bf16 weights are read as
float32, all others as they were written.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, assert_never

import numpy as np

StoredAs = Literal["float32", "bfloat16"]
QUIET_NAN = 0x7FC0
ALIGNMENT = 8  # bytes: where a safetensors header may end


def write_weights(path: Path, weights: Mapping[str, np.ndarray], stored_as: StoredAs = "float32") -> None:
    """With `stored_as` "float32", each array is written unchanged."""
    match stored_as:
        case "float32":
            write_exact(path, weights)
        case "bfloat16":
            write_bfloat16(path, {name: to_bfloat16(array) for name, array in weights.items()})
        case _:
            assert_never(stored_as)


def write_exact(path: Path, weights: Mapping[str, np.ndarray]) -> None:
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    try:
        save_file({name: np.ascontiguousarray(array) for name, array in weights.items()}, path)
    except SafetensorError as error:  # also raised when the disk is full
        raise OSError(f"{path.name}: {error}") from None


def write_bfloat16(path: Path, halves: Mapping[str, np.ndarray]) -> None:
    """Write the safetensors format; the library's numpy API supports numpy's own types only."""
    header: dict[str, Any] = {}
    end = 0
    for name, array in halves.items():
        header[name] = {"dtype": "BF16", "shape": list(array.shape), "data_offsets": [end, end + array.nbytes]}
        end += array.nbytes
    described = json.dumps(header, separators=(",", ":")).encode()
    described += b" " * (-len(described) % ALIGNMENT)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(described)) + described)
        for array in halves.values():
            file.write(array.astype("<u2", copy=False).tobytes())


def read_weights(path: Path) -> dict[str, np.ndarray]:
    """All weights by name. Raises `SafetensorError` if the file is invalid."""
    from safetensors import deserialize
    from safetensors.numpy import load_file

    if not holds_bfloat16(path):
        return load_file(path)
    found: dict[str, np.ndarray] = {}
    for name, tensor in deserialize(path.read_bytes()):  # type: ignore[no-untyped-call]
        kind = np.dtype("<u2") if tensor["dtype"] == "BF16" else np.dtype("<f4")
        array = np.frombuffer(tensor["data"], kind).reshape(tensor["shape"])
        found[name] = from_bfloat16(array) if tensor["dtype"] == "BF16" else array.copy()
    return found


def holds_bfloat16(path: Path) -> bool:
    """Whether the header mentions bf16; a damaged header is reported by the library."""
    return b'"BF16"' in read_header(path)


def is_whole(path: Path) -> bool:
    """Whether the length of the file is the one that its header implies; the numbers are not read."""
    header = read_header(path)
    try:
        tensors = [entry for name, entry in json.loads(header).items() if name != "__metadata__"]
        end = max((entry["data_offsets"][1] for entry in tensors), default=0)
        return bool(path.stat().st_size == 8 + len(header) + end)
    except (ValueError, LookupError, TypeError, AttributeError):
        return False


def read_header(path: Path) -> bytes:
    """The JSON header of the file; truncated if the file is."""
    with path.open("rb") as file:
        start = file.read(8)
        return file.read(min(struct.unpack("<Q", start)[0], path.stat().st_size)) if len(start) == 8 else b""


def to_bfloat16(array: np.ndarray) -> np.ndarray:
    """The upper halves of the nearest bf16 numbers, as uint16."""
    bits = np.ascontiguousarray(array, np.float32).view(np.uint32)
    # Add half a unit of the last remaining bit, or just less if that bit is 0: ties to even.
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> 16) & np.uint32(1))) >> 16
    halves = rounded.astype(np.uint16).reshape(array.shape)
    return np.where(np.isnan(array), np.uint16(QUIET_NAN), halves)


def from_bfloat16(halves: np.ndarray) -> np.ndarray:
    """The same numbers as float32."""
    return (halves.astype(np.uint32) << 16).view(np.float32)
