"""The weights of a model: a safetensors file in float32, bf16 or int8, read and written without torch.

bf16 is the upper half of a float32: the same exponent, 8 bits of precision instead of 24. numpy has no such type, so
the halves are written and read as 16-bit integers; rounding is to nearest, ties to even.

int8 is for matrices: each row (all but the last axis) has a scale, the magnitude of its largest number over 127, in a
float32 tensor of its own, `<name>.int8_scale`; a number is its integer times the scale of its row. Vectors stay in
float32.

The header of a file is a JSON object that gives the type, shape and place of each tensor. It is checked as a whole,
also against the length of the file, before memory for any tensor is allocated. bf16, float16 and int8 with scales are
read as float32, other types as they are; NaN and infinity are refused.
"""

from __future__ import annotations

import io
import json
import math
import mmap
import os
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, assert_never

import numpy as np

from regard.errors import ModelFolderError
from regard.model_folder.files import open_file, parse_file, reason

StoredAs = Literal["float32", "bfloat16", "int8"]
QUIET_NAN = 0x7FC0
SCALE = ".int8_scale"  # after the name of a matrix in int8: its scales, one per row
MOST_INT8 = 127
ALIGNMENT = 8  # bytes: where a safetensors header may end
METADATA = "__metadata__"  # a key of the header that is no tensor
MOST_HEADER = 32 << 20  # bytes
MOST_DIMENSIONS = 8
MOST_NUMBERS = 2**48  # of a tensor; one without numbers may still have a shape that overflows

# The types of the format that can be read; of a model folder's weights, only OUR_TYPES.
TYPES: Mapping[str, np.dtype[Any]] = {
    name: np.dtype(kind)
    for name, kind in {
        **{"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "BOOL": "?"},
        **{"I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1", "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "u1"},
    }.items()
}
OUR_TYPES = (("F32", "BF16", "I8"), ("F64",))  # of one folder: what is read as float32, or what was computed in float64


@dataclass(frozen=True)
class StoredTensor:
    """A tensor of a file, by its header; `start` and `end` are its bytes, counted from the end of the header."""

    type: str
    shape: tuple[int, ...]
    start: int
    end: int


@dataclass(frozen=True)
class Header:
    tensors: Mapping[str, StoredTensor]  # in the order of the file
    size: int  # bytes before the first tensor

    @cached_property
    def weights(self) -> dict[str, StoredTensor]:
        """The tensors without the scales of those in int8."""
        return {name: tensor for name, tensor in self.tensors.items() if not self.is_scale(name)}

    def is_scale(self, name: str) -> bool:
        return name.endswith(SCALE) and self.has_scale(name.removesuffix(SCALE))

    def has_scale(self, name: str) -> bool:
        """Whether a tensor is in int8, with the scales of its rows."""
        tensor, scale = self.tensors.get(name), self.tensors.get(name + SCALE)
        if tensor is None or scale is None or len(tensor.shape) < 2:
            return False
        return (tensor.type, scale.type, scale.shape) == ("I8", "F32", tensor.shape[:-1])

    @cached_property
    def numbers(self) -> int:
        """How many numbers all weights have."""
        return sum(math.prod(tensor.shape) for tensor in self.weights.values())

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {name: tensor.shape for name, tensor in self.weights.items()}


def write_weights(path: Path, weights: Mapping[str, np.ndarray], stored_as: StoredAs = "float32") -> None:
    """With `stored_as` "float32", each array is written unchanged."""
    match stored_as:
        case "float32":
            write_exact(path, weights)
        case "bfloat16":
            write_tensors(path, {name: ("BF16", to_bfloat16(array)) for name, array in weights.items()})
        case "int8":
            check_finite(weights, path)
            write_tensors(path, int8_tensors(weights))
        case _:
            assert_never(stored_as)


def write_exact(path: Path, weights: Mapping[str, np.ndarray]) -> None:
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    try:
        save_file({name: np.ascontiguousarray(array) for name, array in weights.items()}, path)
    except SafetensorError as error:  # also raised when the disk is full
        raise OSError(f"{path.name}: {error}") from None


def write_tensors(path: Path, tensors: Mapping[str, tuple[str, np.ndarray]]) -> None:
    """Write (type, numbers) in the safetensors format; the library's numpy API does not support bf16."""
    header: dict[str, Any] = {}
    end = 0
    for name, (kind, array) in tensors.items():
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [end, end + array.nbytes]}
        end += array.nbytes
    described = json.dumps(header, separators=(",", ":")).encode()
    described += b" " * (-len(described) % ALIGNMENT)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(described)) + described)
        for kind, array in tensors.values():
            file.write(array.astype(TYPES[kind], copy=False).tobytes())


def int8_tensors(weights: Mapping[str, np.ndarray]) -> dict[str, tuple[str, np.ndarray]]:
    """Matrices as integers with their scales, everything else as float32, which comes first: so it stays aligned."""
    floats: dict[str, tuple[str, np.ndarray]] = {}
    integers: dict[str, tuple[str, np.ndarray]] = {}
    for name, array in weights.items():
        if array.ndim < 2:
            floats[name] = ("F32", array.astype(np.float32))
        else:
            rounded, scale = to_int8(array)
            integers[name], floats[name + SCALE] = ("I8", rounded), ("F32", scale)
    return floats | integers


def read_weights(folder: Path, name: str, linked: Sequence[Path] = ()) -> dict[str, np.ndarray]:
    """Every tensor of a file of a folder; a ModelFolderError where the file is damaged."""
    path = folder / name
    found: dict[str, np.ndarray] = {}
    with open_file(folder, name, linked) as file:
        header = header_of(file, path)
        for tensor_name, tensor in header.tensors.items():
            found[tensor_name] = read_tensor(file, header.size, tensor, tensor_name, path)
    for tensor_name in filter(header.has_scale, header.weights):
        found[tensor_name] = from_int8(found[tensor_name], found.pop(tensor_name + SCALE))
        check_finite({tensor_name: found[tensor_name]}, path)
    return found


def map_weights(folder: Path, name: str) -> dict[str, np.ndarray]:
    """Every tensor of a file as it is stored, without copying: bf16 as uint16, int8 beside its scales.

    The pages are those of the file, read when they are first used. A file is never written in place (atomic.py).
    """
    path = folder / name
    with open_file(folder, name) as file:
        header = header_of(file, path)
        try:
            content = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        except (OSError, ValueError) as error:
            raise ModelFolderError(f"{path} cannot be read: {reason(error)}") from None
    found: dict[str, np.ndarray] = {}
    for tensor_name, tensor in header.tensors.items():
        kind, count = TYPES[tensor.type], math.prod(tensor.shape)
        array = np.frombuffer(content, kind, count, header.size + tensor.start).reshape(tensor.shape)
        found[tensor_name] = array if array.flags.aligned else array.copy()
        halves = tensor.type == "BF16"
        check_finite({tensor_name: largest_bfloat16(array) if halves else array}, path)
    return found


def largest_bfloat16(halves: np.ndarray) -> np.ndarray:
    """The number of greatest magnitude, as float32: NaN above infinity above all others."""
    largest = (halves & np.uint16(0x7FFF)).max(keepdims=True, initial=0)
    return from_bfloat16(largest)


def read_header(folder: Path, name: str, linked: Sequence[Path] = ()) -> Header:
    """What is in a file, and where; its numbers are not looked at."""
    with open_file(folder, name, linked) as file:
        return header_of(file, folder / name)


def header_of(file: io.BufferedReader, path: Path) -> Header:
    try:
        length, start = os.fstat(file.fileno()).st_size, file.read(8)
        size = struct.unpack("<Q", start)[0] if len(start) == 8 else 0
        if not 2 <= size <= min(length - 8, MOST_HEADER):
            raise damaged(path, "it does not begin with the header of a safetensors file")
        content = parse_file(file.read(size), path)
    except OSError as error:
        raise ModelFolderError(f"{path} cannot be read: {reason(error)}") from None
    if not isinstance(content, dict):
        raise damaged(path, "its header is not an object")
    content.pop(METADATA, None)
    tensors = {name: stored_tensor(name, entry, path) for name, entry in content.items()}
    ordered = dict(sorted(tensors.items(), key=lambda item: (item[1].start, item[1].end)))
    end = 0
    for name, tensor in ordered.items():
        if tensor.start != end:
            raise damaged(path, f"{name[:80]!r} does not begin where the tensor before it ends")
        end = tensor.end
    if length != 8 + size + end:
        raise damaged(path, "its length is not the one in its header")
    return Header(ordered, 8 + size)


def stored_tensor(name: str, entry: Any, path: Path) -> StoredTensor:
    """One entry of a header, with every value of it checked."""
    if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
        raise damaged(path, f"its header does not describe {name[:80]!r} by dtype, shape and data_offsets")
    kind, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(kind, str) or kind not in TYPES:
        raise ModelFolderError(
            f"{path}: {name[:80]!r} has numbers of the type {str(kind)[:80]!r}, which Regard does not read; "
            f"convert the file to float32 or bf16"
        )
    if not are_sizes(shape) or not are_sizes(offsets) or len(offsets) != 2 or len(shape) > MOST_DIMENSIONS:
        raise damaged(path, f"its header has no possible shape or place for {name[:80]!r}")
    start, end = offsets
    fits = end - start == math.prod(shape) * TYPES[kind].itemsize
    if not fits or math.prod(max(size, 1) for size in shape) > MOST_NUMBERS:
        raise damaged(path, f"the shape of {name[:80]!r} does not fit its place")
    return StoredTensor(kind, tuple(shape), start, end)


def are_sizes(values: Any) -> bool:
    return isinstance(values, list) and all(type(value) is int and 0 <= value < 2**60 for value in values)


def damaged(path: Path, what: str) -> ModelFolderError:
    return ModelFolderError(f"{path} is damaged: {what}; copy the folder again")


def read_tensor(file: io.BufferedReader, begin: int, tensor: StoredTensor, name: str, path: Path) -> np.ndarray:
    kind = TYPES[tensor.type]
    array = np.empty(tensor.shape, kind)
    try:
        file.seek(begin + tensor.start)
        if file.readinto(array.reshape(-1).view(np.uint8).data) != tensor.end - tensor.start:
            raise damaged(path, f"it ends within {name[:80]!r}")
    except OSError as error:
        raise ModelFolderError(f"{path} cannot be read: {reason(error)}") from None
    if tensor.type == "BF16":
        array = from_bfloat16(array)
    elif tensor.type == "F16":
        array = array.astype(np.float32)
    check_finite({name: array}, path)
    return array


def check_finite(weights: Mapping[str, np.ndarray], where: Path) -> None:
    """Refuse weights that are NaN or infinite: the model would compute nothing but NaN."""
    for name, array in weights.items():
        # The least and the greatest number say it without memory for a mask.
        if array.dtype.kind == "f" and array.size and not (np.isfinite(array.min()) and np.isfinite(array.max())):
            raise ModelFolderError(
                f"{where}: {name[:80]!r} has a number that is NaN or infinite, so the model cannot be used; "
                f"get another copy, or train again"
            )


def check_types(header: Header, path: Path) -> None:
    """Raise where these are not the numbers of the weights of a model folder."""
    found = {tensor.type: name for name, tensor in header.weights.items()}
    for name, tensor in header.weights.items():
        if tensor.type == "I8" and not header.has_scale(name):
            raise ModelFolderError(
                f"{path} has {name[:80]!r} in int8 without the scales of its rows ({SCALE.removeprefix('.')}), so its "
                f"numbers are not known; get another copy"
            )
    if not any(found.keys() <= set(types) for types in OUR_TYPES):
        shown = ", ".join(f"{kind} ({name[:80]!r})" for kind, name in sorted(found.items()))
        raise ModelFolderError(
            f"{path} has numbers of the types {shown}; the weights of a model folder are of "
            f"{' or '.join(' and '.join(types) for types in OUR_TYPES)}"
        )


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


def to_int8(array: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The nearest integers from −127 to 127, and the scale of each row in float32; a row of zeros has the scale 0."""
    rows = array.astype(np.float32, copy=False)
    scale = np.abs(rows).max(axis=-1, initial=0) / np.float32(MOST_INT8)
    divisor = np.where(scale > 0, scale, np.float32(1))[..., None]
    return np.rint(np.clip(rows / divisor, -MOST_INT8, MOST_INT8)).astype(np.int8), scale


def from_int8(integers: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """The numbers as float32."""
    with np.errstate(over="ignore"):  # infinity is refused with the name of the tensor
        product: np.ndarray = np.multiply(integers, scale[..., None], dtype=np.float32)
    return product
