"""The settings of a model: one module and one dataclass per family, with its presets and what it is for."""

from __future__ import annotations

from typing import Any, get_args

from regard.config.models.base import (
    ONE_VOCABULARY,
    FeedForwardChoice,
    FeedForwardKind,
    NormKind,
    NormOrder,
    Position,
    TiedEmbeddings,
    TrainingTask,
    Use,
    wrong_family,
)
from regard.config.models.bert import BertConfig, BertHead
from regard.config.models.deepseek import DeepSeekConfig
from regard.config.models.gpt import GptConfig
from regard.config.models.mixture import GateKind, LoadBalancing, MixtureConfig
from regard.config.models.recurrent import Bidirectional, CellKind, RecurrentAttention, RecurrentConfig
from regard.config.models.t5 import T5Config
from regard.config.models.transformer import TransformerConfig
from regard.config.models.vit import ViTConfig

# Encoder–decoder models, which translate.
TranslationConfig = TransformerConfig | RecurrentConfig | T5Config
# Decoder-only language models, which generate text.
LanguageConfig = GptConfig | DeepSeekConfig
# A model of any family. The first is the default where a recipe or a model folder names none.
FamilyConfig = TranslationConfig | LanguageConfig | BertConfig | ViTConfig
FAMILIES: tuple[type[FamilyConfig], ...] = get_args(FamilyConfig)

PRESETS: dict[str, dict[str, Any]] = {
    name: {"family": family.family, **sizes} for family in FAMILIES for name, sizes in family.presets.items()
}
# The vocabulary sizes published with presets; without one, a preset is counted with the paper's 37,000.
VOCABULARIES: dict[str, int] = {name: size for family in FAMILIES for name, size in family.preset_vocabularies.items()}

__all__ = [
    "FAMILIES",
    "ONE_VOCABULARY",
    "PRESETS",
    "VOCABULARIES",
    "BertConfig",
    "BertHead",
    "Bidirectional",
    "CellKind",
    "DeepSeekConfig",
    "FamilyConfig",
    "FeedForwardChoice",
    "FeedForwardKind",
    "GateKind",
    "GptConfig",
    "LanguageConfig",
    "LoadBalancing",
    "MixtureConfig",
    "NormKind",
    "NormOrder",
    "Position",
    "RecurrentAttention",
    "RecurrentConfig",
    "T5Config",
    "TiedEmbeddings",
    "TrainingTask",
    "TransformerConfig",
    "TranslationConfig",
    "Use",
    "ViTConfig",
    "wrong_family",
]
