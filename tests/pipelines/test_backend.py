"""A translator where the C++ library cannot be loaded: numpy computes the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.decode.numpy_transformer import NumpyTransformer
from regard.kernels.loader import library
from regard.pipelines.model_translator import ModelTranslator


@pytest.fixture
def no_library(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("REGARD_NATIVE", "0")
    library.cache_clear()
    yield
    library.cache_clear()


@pytest.mark.usefixtures("no_library")
def test_numpy_in_place_of_the_engine(
    reverse_model: Path, reverse: ModelTranslator, reverse_test: list[tuple[str, str]]
) -> None:
    texts, references = map(list, zip(*reverse_test[:8], strict=True))
    slow = ModelTranslator(reverse_model)
    assert (slow.backend.engine, type(slow.backend.plain)) == (None, NumpyTransformer)
    for one, other in zip(slow.translate(texts), reverse.translate(texts), strict=True):
        assert one.text == other.text
        assert one.alternatives[0].score == pytest.approx(other.alternatives[0].score, abs=1e-4)
    for one, other in zip(slow.score(texts, references), reverse.score(texts, references), strict=True):
        assert one.token_log_probs == pytest.approx(other.token_log_probs, abs=1e-4)
    assert "live" not in slow.backend.__dict__, "PyTorch was not needed"


@pytest.mark.usefixtures("no_library")
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_float64_is_left_to_torch(random_model: Any, dtype: torch.dtype) -> None:
    translator = ModelTranslator(random_model(dtype=dtype))
    assert (translator.backend.plain is None) == (dtype == torch.float64)
