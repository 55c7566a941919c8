"""A Hugging Face model folder, read without the transformers library: settings, tensors and other files.

    config.json                    model_type and sizes
    generation_config.json         decoding settings; optional
    model.safetensors              or model.safetensors.index.json and the shards that it lists

A pickle (pytorch_model.bin) is opened only with `allow_pickle`, and only tensors are read from it. Files may be links
into the cache of the hub's own download tool (snapshots/REVISION/NAME leads to blobs/HASH), but not anywhere else.

A converter takes every tensor by its name or discards it explicitly. A tensor that remains is an error: the converted
model would not compute what the original computes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from regard.config import build
from regard.config.parsing import shown
from regard.errors import ConfigError, ModelFolderError
from regard.interop.huggingface.pickled import PICKLED, PICKLED_INDEX, read_pickled
from regard.model_folder import weights as weights_file
from regard.model_folder.files import MOST_TEXT, check_folder, has_file, open_file, parse_file, read_file
from regard.model_folder.folder import ModelDescription

CONFIG, GENERATION = "config.json", "generation_config.json"
SAFE, INDEX = "model.safetensors", "model.safetensors.index.json"
OTHER_FORMATS = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl", "*.h5", "*.msgpack", "*.ot", "*.onnx", "*.gguf")
HOW_TO_READ_IT = (
    "get the folder's safetensors files (many repositories have them in a branch), or, for pytorch_model.bin, add "
    "--allow-pickle: then only tensors are read from it, and no code is run"
)
LARGEST_REAL = 1e30
LARGEST_NUMBER = 100_000_000  # of any setting: vocabularies, lengths and sizes of layers are far below it

T = TypeVar("T")
Say = Callable[[str], None]


@dataclass(frozen=True)
class Imported:
    """The result of a converter: the contents of a model folder, except the model card."""

    description: ModelDescription
    weights: Mapping[str, np.ndarray]


class HuggingFaceFolder:
    """A folder with its settings; tensors are read on demand."""

    def __init__(self, path: Path, say: Say = lambda text: None, allow_pickle: bool = False) -> None:
        check_folder(path, "folder")
        self.path, self.say, self.allow_pickle = path, say, allow_pickle
        self.linked = [path.parent.parent / "blobs"] if path.parent.name == "snapshots" else []
        self.config = HuggingFaceConfig(self.json(CONFIG), path / CONFIG)
        self.generation = self.optional_config(GENERATION)

    def has(self, name: str) -> bool:
        return has_file(self.path, name)

    def bytes(self, name: str) -> bytes:
        """The contents of a required file."""
        if not self.has(name):
            raise ModelFolderError(f"{self.path} is not a complete Hugging Face folder: it has no {name}")
        return read_file(self.path, name, MOST_TEXT, self.linked)

    def json(self, name: str) -> dict[str, Any]:
        value = parse_file(self.bytes(name), self.path / name)
        if not isinstance(value, dict):
            raise ModelFolderError(f"{self.path / name} must hold an object, not a {type(value).__name__}")
        return value

    def optional_config(self, name: str) -> HuggingFaceConfig:
        """The settings of a file that a folder need not have; none where it has not."""
        return HuggingFaceConfig(self.json(name) if self.has(name) else {}, self.path / name)

    def tensors(self) -> HuggingFaceTensors:
        """Every tensor; floating-point ones are converted to float32."""
        if self.has(SAFE):
            return HuggingFaceTensors(self.read_file_of_weights(SAFE), self.path)
        if self.has(INDEX):
            return HuggingFaceTensors(self.read_shards(INDEX, ".safetensors", self.read_file_of_weights), self.path)
        if self.allow_pickle and self.has(PICKLED):
            return HuggingFaceTensors(self.read_pickled(PICKLED), self.path)
        if self.allow_pickle and self.has(PICKLED_INDEX):
            return HuggingFaceTensors(self.read_shards(PICKLED_INDEX, ".bin", self.read_pickled), self.path)
        others = sorted(path.name for path in self.path.iterdir() if any(map(path.match, OTHER_FORMATS)))
        if others:
            raise ModelFolderError(
                f"{self.path} has no {SAFE}, and Regard does not open {others[0]}: such a file may be a pickle, which "
                f"can run code. Instead, {HOW_TO_READ_IT}"
            )
        raise ModelFolderError(f"{self.path} has no weights: neither {SAFE} nor {INDEX}; download the folder again")

    def read_file_of_weights(self, name: str) -> dict[str, np.ndarray]:
        """The tensors of one file; every floating-point one is float32."""
        found = weights_file.read_weights(self.path, name, self.linked)
        wide = {tensor for tensor, array in found.items() if array.dtype == np.float64}
        with np.errstate(over="ignore"):  # what float32 cannot hold is infinite then, and refused
            found.update({tensor: found[tensor].astype(np.float32) for tensor in wide})
        weights_file.check_finite({tensor: found[tensor] for tensor in wide}, self.path / name)
        return found

    def read_pickled(self, name: str) -> dict[str, np.ndarray]:
        """The tensors of a pickle, which must be a file of this folder."""
        with open_file(self.path, name, self.linked) as file:
            found = read_pickled(file, self.path / name)
        weights_file.check_finite(found, self.path / name)
        return found

    def read_shards(
        self, index: str, ending: str, read: Callable[[str], dict[str, np.ndarray]]
    ) -> dict[str, np.ndarray]:
        """The tensors of several files; each must be in the file that the index gives."""
        listed, where = self.json(index).get("weight_map"), self.path / index
        if not isinstance(listed, dict) or not all(isinstance(name, str) for name in listed.values()):
            raise ModelFolderError(f"{where} is not an index of weights: it has no weight_map")
        found: dict[str, np.ndarray] = {}
        for name in sorted(set(listed.values())):
            if Path(name).name != name or not name.endswith(ending):
                raise ModelFolderError(f"{where} names {name!r}, which is not a {ending[1:]} file of this folder")
            if not self.has(name):
                raise ModelFolderError(f"{self.path} is incomplete: {index} names {name}, which is missing")
            tensors = read(name)
            if other := next((tensor for tensor in tensors if listed.get(tensor) != name), None):
                raise ModelFolderError(f"{where} does not say that {other[:80]!r} is in {name}, where it is")
            found.update(tensors)
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
            raise ModelFolderError(f"{self.where}: {name} must be a whole number, not {shown(value)}")
        if abs(value) > LARGEST_NUMBER:
            most = f"{LARGEST_NUMBER:,}"
            raise ModelFolderError(f"{self.where}: {name} = {shown(value)} is too large; the most is {most}")
        return value

    def texts(self, name: str) -> list[str]:
        """A list of texts; empty where it is missing."""
        value = self.get(name, [])
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            raise ModelFolderError(f"{self.where}: {name} must be a list of texts, not {shown(value)}")
        return value

    def text(self, name: str) -> str:
        value = self.get(name, "")
        if not isinstance(value, str):
            raise ModelFolderError(f"{self.where}: {name} must be a text, not {shown(value)}")
        return value

    def table(self, name: str) -> dict[str, Any]:
        """An object; empty where it is missing."""
        value = self.get(name, {})
        if not isinstance(value, dict):
            raise ModelFolderError(f"{self.where}: {name} must be an object, not {shown(value)}")
        return value

    def tables(self, name: str) -> list[HuggingFaceConfig]:
        """A list of objects; empty where it is missing."""
        value = self.get(name, [])
        if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
            raise ModelFolderError(f"{self.where}: {name} must be a list of objects, not {shown(value)}")
        return [HuggingFaceConfig(one, self.where) for one in value]

    def inner(self, name: str) -> HuggingFaceConfig:
        """The settings within a setting."""
        return HuggingFaceConfig(self.table(name), self.where)

    def token(self, name: str, size: int, default: int) -> int:
        """A token id, below `size`."""
        value = self.number(name, default)
        if not 0 <= value < size:
            raise ModelFolderError(f"{self.where}: {name} = {value}, but token ids go from 0 to {size - 1}")
        return value

    def real(self, name: str, default: float | None = None) -> float:
        value = self.get(name, default)
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise ModelFolderError(f"{self.where}: {name} must be a number, not {shown(value)}")
        if not -LARGEST_REAL <= value <= LARGEST_REAL:
            raise ModelFolderError(f"{self.where}: {name} = {shown(value)} is too large")
        return float(value)

    def flag(self, name: str, default: bool) -> bool:
        value = self.get(name, default)
        if not isinstance(value, bool):
            raise ModelFolderError(f"{self.where}: {name} must be true or false, not {shown(value)}")
        return value

    def class_names(self, count: int) -> tuple[str, ...]:
        """The class names in the order of their ids; empty where the folder has only the default LABEL_0, LABEL_1, …"""
        numbered = {str(number): f"LABEL_{number}" for number in range(count)}
        names = self.get("id2label", numbered)
        if not isinstance(names, dict) or names.keys() != numbered.keys():
            raise ModelFolderError(
                f"{self.where}: id2label does not name the model's {count} classes, 0 to {count - 1}"
            )
        if not all(isinstance(one, str) for one in names.values()):
            raise ModelFolderError(f"{self.where}: id2label must name every class with a text")
        return () if names == numbered else tuple(names[number] for number in numbered)

    def require(self, name: str, *allowed: Any, default: Any = None) -> Any:
        """A setting of which Regard supports only some values."""
        value = self.get(name, default)
        if value not in allowed:
            may_be = " or ".join(map(repr, allowed))
            raise ModelFolderError(f"{self.where}: {name} = {shown(value)} is not supported; Regard supports {may_be}")
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
        self.check(name, *shape)
        return self.left.pop(name)

    def check(self, name: str, *shape: int) -> None:
        """Raise where a tensor does not exist or has another shape, if one is given."""
        if name not in self.left:
            raise ModelFolderError(f"{self.where}: the weights have no {name}")
        found = self.left[name].shape
        if shape and found != shape:
            raise ModelFolderError(f"{self.where}: {name} has the shape {found}, but {CONFIG} implies {shape}")

    def take_optional(self, name: str, *shape: int) -> np.ndarray | None:
        return self.take(name, *shape) if name in self.left else None

    def rows(self, name: str) -> int:
        """How many rows a matrix has, which is one of the sizes of the model."""
        shape = self.left[name].shape if name in self.left else ()
        if len(shape) != 2:
            raise ModelFolderError(f"{self.where}: {name} must be a matrix; its shape is {shape or 'missing'}")
        return int(shape[0])

    def discard(self, *patterns: str) -> None:
        """Remove tensors that Regard does not need: it computes them, or they are copies."""
        for name in [name for name in self.left if any(fnmatchcase(name, pattern) for pattern in patterns)]:
            del self.left[name]

    def strip(self, prefix: str) -> None:
        """Remove a prefix of the names, which models saved with a head have and others do not."""
        stripped = {name.removeprefix(prefix): tensor for name, tensor in self.left.items()}
        if len(stripped) < len(self.left):
            raise ModelFolderError(f"{self.where}: the weights have some tensor both with and without {prefix!r}")
        self.left = stripped

    def finish(self) -> None:
        """Refuse a folder with tensors that were neither taken nor discarded."""
        if self.left:
            names = sorted(self.left)
            shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
            raise ModelFolderError(
                f"{self.where}: the weights have tensors that Regard has no use for: {shown}. "
                "The imported model would not compute what the original does"
            )


def build_settings(kind: type[T], where: Path, **values: Any) -> T:
    """Settings of ours from values of theirs: each must be in its range, so that the written folder can be read."""
    name = "decode" if kind.__name__ == "DecodeConfig" else "model"
    try:
        return build(kind, values, name)
    except ConfigError as error:
        raise ModelFolderError(f"{where} has settings that Regard does not support: {error}") from None
