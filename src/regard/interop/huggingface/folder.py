"""A Hugging Face model folder, read without the transformers library: settings, tensors and other files.

    config.json                    model_type and sizes
    generation_config.json         decoding settings; optional
    model.safetensors              or model.safetensors.index.json and the shards that it lists
    pytorch_model.bin              the older format, a pickle: only tensors are loaded, no code is run

A converter takes every tensor by its name or discards it explicitly. A tensor that remains is an error: the converted
model would not compute what the original computes.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np

from regard.errors import ModelFolderError
from regard.model_folder.folder import ModelDescription

CONFIG, GENERATION = "config.json", "generation_config.json"
SAFE, PICKLED = "model.safetensors", "pytorch_model.bin"

Say = Callable[[str], None]


@dataclass(frozen=True)
class Imported:
    """The result of a converter: the contents of a model folder, except the model card."""

    description: ModelDescription
    weights: Mapping[str, np.ndarray]


class HuggingFaceFolder:
    """A folder with its settings; tensors are read on demand."""

    def __init__(self, path: Path, say: Say = lambda text: None) -> None:
        if not path.is_dir():
            raise ModelFolderError(f"there is no folder at {path}")
        self.path, self.say = path, say
        self.config = HuggingFaceConfig(self.json(CONFIG), path / CONFIG)
        has_generation = (path / GENERATION).is_file()
        self.generation = HuggingFaceConfig(self.json(GENERATION) if has_generation else {}, path / GENERATION)

    def has(self, name: str) -> bool:
        return (self.path / name).is_file()

    def bytes(self, name: str) -> bytes:
        """The contents of a required file."""
        try:
            return (self.path / name).read_bytes()
        except FileNotFoundError:
            raise ModelFolderError(f"{self.path} is not a complete Hugging Face folder: it has no {name}") from None
        except OSError as error:
            raise ModelFolderError(f"{self.path / name} cannot be read: {error.strerror}") from None

    def json(self, name: str) -> dict[str, Any]:
        return parse_object(self.bytes(name), self.path / name)

    def tensors(self) -> HuggingFaceTensors:
        """Every tensor; floating-point ones are converted to float32."""
        index = f"{SAFE}.index.json"
        if self.has(SAFE):
            found = read_safe(self.path / SAFE)
        elif self.has(index):
            found = self.read_shards(index, read_safe)
        elif self.has(PICKLED) or self.has(f"{PICKLED}.index.json"):
            self.say(
                f"{self.path} has its weights in {PICKLED}, a pickle; only tensors are read from it and no code is run"
            )
            if self.has(PICKLED):
                found = read_pickled(self.path / PICKLED)
            else:
                found = self.read_shards(f"{PICKLED}.index.json", read_pickled)
        else:
            others = [name for name in ("tf_model.h5", "flax_model.msgpack", "rust_model.ot") if self.has(name)]
            hint = f"; {' and '.join(others)} cannot be read; save the model with PyTorch first" if others else ""
            raise ModelFolderError(f"{self.path} has no weights: neither {SAFE} nor {PICKLED}{hint}")
        return HuggingFaceTensors(found, self.path)

    def read_shards(self, index: str, read: Callable[[Path], dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
        listed = self.json(index).get("weight_map")
        if not isinstance(listed, dict) or not all(isinstance(name, str) for name in listed.values()):
            raise ModelFolderError(f"{self.path / index} is not an index of weights: it has no weight_map")
        found: dict[str, np.ndarray] = {}
        for name in sorted(set(listed.values())):
            if Path(name).name != name:
                raise ModelFolderError(f"{self.path / index} names {name!r}, which is not a file of this folder")
            if not self.has(name):
                raise ModelFolderError(f"{self.path} is incomplete: {index} names {name}, which is missing")
            found.update(read(self.path / name))
        missing = sorted(listed.keys() - found.keys())
        if missing:
            raise ModelFolderError(f"{self.path} is incomplete: no file of {index} has {missing[0]}")
        return found


class HuggingFaceConfig:
    """The settings of a folder, with typed access."""

    def __init__(self, values: Mapping[str, Any], where: Path) -> None:
        self.values, self.where = dict(values), where

    def get(self, name: str, default: Any = None) -> Any:
        """A setting as it stands; null counts as missing."""
        value = self.values.get(name)
        return default if value is None else value

    def number(self, name: str, default: int | None = None) -> int:
        value = self.get(name, default)
        if not isinstance(value, int) or isinstance(value, bool):
            raise ModelFolderError(f"{self.where}: {name} must be a whole number, not {value!r}")
        return value

    def token(self, name: str, size: int, default: int) -> int:
        """A token id, below `size`."""
        value = self.number(name, default)
        if not 0 <= value < size:
            raise ModelFolderError(f"{self.where}: {name} = {value}, but token ids go from 0 to {size - 1}")
        return value

    def real(self, name: str, default: float | None = None) -> float:
        value = self.get(name, default)
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise ModelFolderError(f"{self.where}: {name} must be a number, not {value!r}")
        return float(value)

    def flag(self, name: str, default: bool) -> bool:
        value = self.get(name, default)
        if not isinstance(value, bool):
            raise ModelFolderError(f"{self.where}: {name} must be true or false, not {value!r}")
        return value

    def class_names(self, count: int) -> tuple[str, ...]:
        """The class names in the order of their ids; empty where the folder has only the default LABEL_0, LABEL_1, …"""
        numbered = {str(number): f"LABEL_{number}" for number in range(count)}
        names = self.get("id2label", numbered)
        if not isinstance(names, dict) or names.keys() != numbered.keys():
            raise ModelFolderError(
                f"{self.where}: id2label does not name the model's {count} classes, 0 to {count - 1}"
            )
        return () if names == numbered else tuple(str(names[number]) for number in numbered)

    def require(self, name: str, *allowed: Any, default: Any = None) -> Any:
        """A setting of which Regard supports only some values."""
        value = self.get(name, default)
        if value not in allowed:
            may_be = " or ".join(map(repr, allowed))
            raise ModelFolderError(f"{self.where}: {name} = {value!r} is not supported; Regard supports {may_be}")
        return value


class HuggingFaceTensors:
    """The tensors of a folder; a converter takes or discards each of them."""

    def __init__(self, tensors: Mapping[str, np.ndarray], where: Path) -> None:
        self.left, self.where = dict(tensors), where

    def __contains__(self, name: str) -> bool:
        return name in self.left

    def names(self) -> list[str]:
        """The names of the tensors that remain."""
        return list(self.left)

    def take(self, name: str, *shape: int) -> np.ndarray:
        """Remove and return a tensor, which must exist; `shape` is checked if given."""
        if name not in self.left:
            raise ModelFolderError(f"{self.where}: the weights have no {name}")
        tensor = self.left.pop(name)
        if shape and tensor.shape != shape:
            raise ModelFolderError(f"{self.where}: {name} has the shape {tensor.shape}, but {CONFIG} implies {shape}")
        return tensor

    def take_optional(self, name: str, *shape: int) -> np.ndarray | None:
        return self.take(name, *shape) if name in self.left else None

    def discard(self, *patterns: str) -> None:
        """Remove tensors that Regard does not need: it computes them, or they are copies."""
        for name in [name for name in self.left if any(fnmatchcase(name, pattern) for pattern in patterns)]:
            del self.left[name]

    def strip(self, prefix: str) -> None:
        """Remove a prefix of the names, which models saved with a head have and others do not."""
        self.left = {name.removeprefix(prefix): tensor for name, tensor in self.left.items()}

    def finish(self) -> None:
        """Refuse a folder with tensors that were neither taken nor discarded."""
        if self.left:
            names = sorted(self.left)
            shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
            raise ModelFolderError(
                f"{self.where}: the weights have tensors that Regard has no use for: {shown}. "
                "The imported model would not compute what the original does"
            )


def parse_object(content: bytes, where: Path) -> dict[str, Any]:
    try:
        value = json.loads(content.decode("utf-8"))
    except ValueError as error:
        raise ModelFolderError(f"{where} is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise ModelFolderError(f"{where} must hold an object, not a {type(value).__name__}")
    return value


def read_safe(path: Path) -> dict[str, np.ndarray]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return as_arrays(load_file(path))
    except SafetensorError as error:
        raise ModelFolderError(f"{path} cannot be read: {error}") from None


def read_pickled(path: Path) -> dict[str, np.ndarray]:
    import torch

    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, ValueError, EOFError) as error:
        reason = str(error).splitlines()[0]
        raise ModelFolderError(f"{path} is not a pickle of tensors only, and Regard loads no other: {reason}") from None
    if not isinstance(found, dict) or not all(isinstance(value, torch.Tensor) for value in found.values()):
        raise ModelFolderError(f"{path} is not a dictionary of named tensors")
    return as_arrays(found)


def as_arrays(tensors: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """As float32: numpy has no bf16."""
    return {
        name: (tensor.float() if tensor.is_floating_point() else tensor).numpy() for name, tensor in tensors.items()
    }
