"""Settings that describe no model, and weights that do not belong to it: what the user reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from regard.config import GptConfig, TransformerConfig
from regard.errors import ModelFolderError
from regard.models.build import build_model
from regard.models.load import build_outline, check_shapes

SIZES: dict[str, Any] = {"d_model": 8, "n_heads": 2, "d_ff": 8}


def test_an_outline_has_no_memory() -> None:
    config = TransformerConfig(src_vocab_size=10, tgt_vocab_size=10, **SIZES)
    assert {parameter.device.type for parameter in build_outline(config, Path("m")).parameters()} == {"meta"}


def test_sizes_that_no_tensor_can_have_are_refused() -> None:
    for size in (2**62, 2**70):
        config = GptConfig(vocab_size=size, n_layers=1, **SIZES)
        with pytest.raises(ModelFolderError, match=r"^m/config\.json asks for a model that is too large: "):
            build_outline(config, Path("m"))


def test_the_first_of_the_wrong_shapes_is_named() -> None:
    check_shapes({"a": (1,), "b": (2,)}, {"a": (1,), "b": (2,)}, Path("m"))
    with pytest.raises(ModelFolderError) as caught:
        check_shapes({"a": (1,), "b": (2,), "c": (3,)}, {"a": (1,), "b": (4,), "d": (5,)}, Path("m"))
    assert str(caught.value) == (
        "m: the weights do not fit the sizes in config.json: b is (4,) in weights.safetensors, "
        "but config.json implies (2,) (3 mismatches)"
    )


def test_another_family_is_refused() -> None:
    other: Any = SIZES
    with pytest.raises(AssertionError, match="'d_model': 8"):
        build_model(other)
