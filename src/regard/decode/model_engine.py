"""The engine of a live PyTorch model, and the engine as a model that the searches in Python can use, step by step.

Shapes: B sentences, M source length, L target length, R rows, V vocabulary.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor

from regard.config import Precision
from regard.core.precision import choose_dtype
from regard.decode.engine import Engine, EngineState, NumberFormat, fastest_number_format
from regard.decode.engine_shape import has_engine
from regard.decode.engine_support import SUPPORT
from regard.decode.protocols import SearchModel
from regard.errors import ConfigError
from regard.kernels.bindings import ENGINE
from regard.kernels.loader import library
from regard.models.bert import Bert
from regard.models.language_model import LanguageModel
from regard.models.translation_model import TranslationModel
from regard.tokenizers.special_ids import PAD

Packable = TranslationModel | LanguageModel | Bert


def build_searcher(model: TranslationModel, precision: Precision) -> Engine | SearchModel[Any]:
    """The engine where it supports the model and can be compiled on this machine, else the model itself."""
    form: NumberFormat = fastest_number_format() if precision == "auto" else precision
    if (engine := build_engine(model, form)) is not None:
        return engine
    if precision == "int8":
        reason = engine_refusal(model) or "its C++ code cannot be compiled here (`regard doctor` says why)"
        raise ConfigError(f"precision int8 needs the engine, but {reason}. Use bfloat16, float32 or auto")
    if choose_dtype(precision, model.output.weight.device) == torch.bfloat16:
        return copy.deepcopy(model).bfloat16()
    return model


def engine_refusal(model: Packable) -> str | None:
    """Why there is no engine for the model, in a sentence; None: the engine supports it."""
    weight = model.output.weight
    if weight.device.type != "cpu":
        return f"the engine runs on the CPU only, and the model is on {weight.device}"
    if weight.dtype != torch.float32:
        return f"the engine takes float32 weights, and the model's are {weight.dtype}"
    return SUPPORT.refusal(model.config)


def build_engine(model: Packable, form: NumberFormat) -> Engine | None:
    """The engine of a model; None where it does not support the model or cannot be compiled on this machine."""
    config = model.config
    if engine_refusal(model) is not None or not has_engine(config) or library(ENGINE) is None:
        return None
    weights = {name: parameter.detach().numpy() for name, parameter in model.named_parameters()}
    return Engine(config, weights, form)


class SteppedEngine:
    """An engine as a SearchModel (protocols.py)."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    @property
    def longest_target(self) -> int | None:
        return self.engine.longest_target

    def begin(self, src_BM: Tensor, max_length: int) -> SteppedState:
        sources = [[token for token in row if token != PAD] for row in src_BM.tolist()]
        return SteppedState(self.engine.begin(sources, max_length))

    def step(self, tokens_R: Tensor, state: SteppedState) -> Tensor:
        return torch.from_numpy(self.engine.step(tokens_R.numpy(), state.state))

    def __call__(self, src_BM: Tensor, tgt_BL: Tensor) -> Tensor:
        state = self.begin(src_BM, tgt_BL.shape[1])
        return torch.stack([self.step(tokens_B, state) for tokens_B in tgt_BL.unbind(1)], dim=1)


class SteppedState:
    def __init__(self, state: EngineState) -> None:
        self.state = state

    def reorder(self, rows_R: Tensor) -> None:
        self.state.reorder(rows_R.numpy())
