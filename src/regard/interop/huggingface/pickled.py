"""`pytorch_model.bin`, the older format of weights: a pickle, read only where the user has allowed it.

`torch.load(weights_only=True)` builds tensors and plain containers and refuses everything else, so no code of the file
is run. Still, it parses the file in this process, which safetensors needs far less code for.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch

from regard.errors import ModelFolderError

PICKLED, PICKLED_INDEX = "pytorch_model.bin", "pytorch_model.bin.index.json"


def read_pickled(file: BinaryIO, path: Path) -> dict[str, np.ndarray]:
    """The tensors of an open file, `path` in messages; floating-point ones as float32."""
    try:
        found = torch.load(file, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, ValueError, EOFError, OSError, KeyError, TypeError) as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise ModelFolderError(f"{path} is not a pickle of tensors only, and Regard loads no other: {reason}") from None
    if not isinstance(found, dict) or not all(isinstance(value, torch.Tensor) for value in found.values()):
        raise ModelFolderError(f"{path} is not a dictionary of named tensors")
    return {
        str(name): (tensor.float() if tensor.is_floating_point() else tensor).numpy() for name, tensor in found.items()
    }
