"""Builds the model that a config describes."""

from __future__ import annotations

from typing import TypeVar, assert_never

from torch import nn

from regard.config import (
    BertConfig,
    DeepSeekConfig,
    FamilyConfig,
    GptConfig,
    RecurrentConfig,
    T5Config,
    TransformerConfig,
    ViTConfig,
    wrong_family,
)
from regard.models.bert import Bert
from regard.models.deepseek import DeepSeek
from regard.models.gpt import Gpt
from regard.models.recurrent import RecurrentModel
from regard.models.t5 import T5
from regard.models.transformer import Transformer
from regard.models.translation_model import TranslationModel
from regard.models.vit import ViT

Kind = TypeVar("Kind", bound=nn.Module)


def build_model(config: FamilyConfig, initialise: bool = True) -> nn.Module:
    match config:
        case TransformerConfig():
            return Transformer(config, initialise)
        case RecurrentConfig():
            return RecurrentModel(config, initialise)
        case T5Config():
            return T5(config, initialise)
        case GptConfig():
            return Gpt(config, initialise)
        case BertConfig():
            return Bert(config, initialise)
        case DeepSeekConfig():
            return DeepSeek(config, initialise)
        case ViTConfig():
            return ViT(config, initialise)
        case _:
            assert_never(config)


def translation_model(config: FamilyConfig, initialise: bool = True) -> TranslationModel:
    """A translation model; a model of another kind is refused, and the error names its command."""
    return require_kind(build_model(config, initialise), TranslationModel, config, "translate")  # type: ignore[type-abstract]


def require_kind(model: nn.Module, kind: type[Kind], config: FamilyConfig, purpose: str) -> Kind:
    """The model, if it is of this class; else an error. `purpose` is a verb for the message, such as "translate"."""
    if isinstance(model, kind):
        return model
    raise wrong_family(config, purpose)
