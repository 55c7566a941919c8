"""What runs a language model or an encoder: the C++ engine, or the model in PyTorch.

The engine runs the models that it supports (decode/engine_support.py). PyTorch runs the others, is for GPUs and traces,
and is imported only then.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from regard.config import FamilyConfig, Precision, convert
from regard.decode.engine import Engine, fastest_number_format, open_engine
from regard.decode.engine_support import SUPPORT
from regard.errors import ConfigError
from regard.extras import require
from regard.model_folder.folder import ModelDescription
from regard.pipelines.backend import has_gpu

if TYPE_CHECKING:
    from torch import nn

    from regard.decode.engine_weights import Weights

Model = TypeVar("Model", bound="nn.Module", covariant=True)
NO_LIBRARY = "its C++ library cannot be loaded here (`regard doctor` says why)"


class ReadModel(Protocol[Model]):
    def __call__(self, folder: Path, config: FamilyConfig) -> Model:
        """The model of a folder in PyTorch, on the GPU if there is one."""


class TextBackend(Generic[Model]):
    """`read_model` imports torch, and is called when the model in PyTorch is first needed."""

    def __init__(
        self, folder: Path, description: ModelDescription, precision: Precision, read_model: ReadModel[Model]
    ) -> None:
        self.folder, self.config, self.read_model = folder, description.model, read_model
        chosen: Precision = convert(Precision, precision, "precision")
        form = fastest_number_format() if chosen == "auto" else chosen
        self.engine: Engine | None = None
        self.weights: Weights = {}
        opened = None if has_gpu() else open_engine(folder, description, form)
        if opened is not None:
            self.engine, self.weights = opened
        elif chosen in ("int8", "bfloat16"):
            reason = SUPPORT.refusal(self.config) or NO_LIBRARY
            raise ConfigError(f"precision {chosen} needs the engine, but {reason}. Use float32 or auto")
        else:
            _ = self.model  # so that errors come now

    @functools.cached_property
    def model(self) -> Model:
        """The model in PyTorch."""
        reason = SUPPORT.refusal(self.config) or NO_LIBRARY
        require("torch", "this" if self.engine else f"the engine cannot run {self.folder} ({reason}), so it")
        return self.read_model(self.folder, self.config)

    @property
    def usable_engine(self) -> Engine | None:
        """The engine, unless the model in PyTorch is there and a tap of it is hooked: the engine has no taps."""
        return None if self.engine is None or self.observed else self.engine

    @property
    def observed(self) -> bool:
        return "model" in self.__dict__ and any(getattr(part, "hooked", False) for part in self.model.modules())
