"""What the tests of this folder share: one thread, and translators so small that a property can be tried many times.

They are in float64, where what is not exact is a mistake, and no parameter is left at 0 or 1, which would hide some.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.config import FamilyConfig, RecurrentConfig, T5Config, TransformerConfig
from regard.models.build import translation_model
from regard.models.translation_model import TranslationModel
from regard.tokenizers.special_ids import PAD

VOCABULARY = 12
FAMILIES: dict[str, Any] = {"transformer": TransformerConfig, "recurrent": RecurrentConfig, "t5": T5Config}
SIZES: dict[str, dict[str, Any]] = {
    "transformer": {
        **{"d_model": 8, "n_heads": 2, "d_ff": 16, "n_encoder_layers": 2, "n_decoder_layers": 2},
        "max_positions": 32,
    },
    "recurrent": {"d_model": 6, "n_encoder_layers": 2, "n_decoder_layers": 3, "residual": True},
    "t5": {
        **{"d_model": 8, "n_heads": 3, "head_size": 5, "d_ff": 12, "n_encoder_layers": 2, "n_decoder_layers": 2},
        **{"n_buckets": 4, "max_distance": 6},  # so few that short sentences reach the last
    },
}


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    """Small tensors want one thread: with more, the tests wait for each other's."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@functools.cache
def shaken(config: FamilyConfig) -> TranslationModel:
    torch.manual_seed(0)
    model = translation_model(config).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    return model.requires_grad_(False)


class Small:
    """Small translators, by the name of their family and by the settings that are not the usual."""

    vocabulary = VOCABULARY

    @staticmethod
    def config(family: str, **changes: Any) -> FamilyConfig:
        sizes = SIZES[family] | {"src_vocab_size": VOCABULARY, "tgt_vocab_size": VOCABULARY}
        return FAMILIES[family](**(sizes | changes))  # type: ignore[no-any-return]

    @classmethod
    def model(cls, family: str, **changes: Any) -> TranslationModel:
        """With random biases, gains and positions, dropout configured and switched off; the same one every time."""
        return shaken(cls.config(family, **changes))

    @staticmethod
    def batch(sentences: list[list[int]], width: int = 0) -> Tensor:
        width = max(width, *map(len, sentences), 1)
        return torch.tensor([ids + [PAD] * (width - len(ids)) for ids in sentences])

    @staticmethod
    def close(actual: Tensor, expected: Tensor) -> None:
        torch.testing.assert_close(actual, expected, rtol=0, atol=1e-12)


@pytest.fixture(scope="session")
def small() -> Small:
    return Small()
