"""Language models and encoders in PyTorch: the models that the engine does not support, GPUs, and models with hooks.

Shapes: B batch, L length, D model, N masks, V vocabulary, C classes or tags.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from regard.config import FamilyConfig
from regard.decode.batching import plan_batches
from regard.models.bert import Bert
from regard.models.language_model import LanguageModel
from regard.models.load import read_model
from regard.tokenizers.special_ids import PAD

Array = npt.NDArray[np.float32]


def read_language_model(folder: Path, config: FamilyConfig) -> LanguageModel:
    return read_model(folder, config, LanguageModel, "generate text").to(find_device())  # type: ignore[type-abstract]


def read_encoder(folder: Path, config: FamilyConfig) -> Bert:
    return read_model(folder, config, Bert, "encode texts").to(find_device())


def find_device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


class LiveEncoder:
    """A BERT as TextEncoder uses it (bert_heads.py has the same for the engine)."""

    def __init__(self, model: Bert, batch_tokens: int) -> None:
        self.model, self.batch_tokens = model, batch_tokens
        self.device = model.output.weight.device

    @torch.inference_mode()
    def encode(self, texts: Sequence[Sequence[int]]) -> list[Array]:
        found: dict[int, Array] = {}
        for batch in plan_batches([len(ids) for ids in texts], self.batch_tokens):
            longest = max(len(texts[i]) for i in batch)
            rows = [[*texts[i], *[PAD] * (longest - len(texts[i]))] for i in batch]
            hidden_BLD = self.model(torch.tensor(rows, device=self.device))
            found.update(
                (i, to_numpy(hidden_LD[: len(texts[i])])) for i, hidden_LD in zip(batch, hidden_BLD, strict=True)
            )
        return [found[i] for i in range(len(texts))]

    @torch.inference_mode()
    def masked_logits(self, hidden_ND: Array) -> Array:
        return to_numpy(self.model.masked_logits(self.to_device(hidden_ND)))

    @torch.inference_mode()
    def class_logits(self, hidden_LD: Array) -> Array:
        return to_numpy(self.model.class_logits(self.to_device(hidden_LD)[None])[0])

    @torch.inference_mode()
    def tag_logits(self, hidden_LD: Array) -> Array:
        return to_numpy(self.model.tag_logits(self.to_device(hidden_LD)[None])[0])

    def to_device(self, array: Array) -> Tensor:
        return torch.from_numpy(array).to(self.device, self.model.output.weight.dtype)


def to_numpy(tensor: Tensor) -> Array:
    return tensor.float().cpu().numpy()
