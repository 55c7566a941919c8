"""A model of the family that its settings name."""

from __future__ import annotations

from typing import assert_never

from regard.config import FamilyConfig, ModelConfig, RecurrentConfig
from regard.models.recurrent import RecurrentModel
from regard.models.transformer import Transformer
from regard.models.translation import TranslationModel


def build_model(config: FamilyConfig, initialise: bool = True) -> TranslationModel:
    match config:
        case ModelConfig():
            return Transformer(config, initialise)
        case RecurrentConfig():
            return RecurrentModel(config, initialise)
        case _:
            assert_never(config)
