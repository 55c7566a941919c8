"""A translation model in PyTorch: for traces and interventions, on a GPU, and for what the engine does not support."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from regard.config import DecodeConfig, Precision
from regard.core.taps import Tap
from regard.decode.batching import plan_batches
from regard.decode.engine import Engine
from regard.decode.hypotheses import Hypothesis
from regard.decode.model_engine import build_searcher
from regard.decode.protocols import SearchModel
from regard.decode.scoring import score_translations
from regard.decode.search import pad_sources
from regard.model_folder.folder import ModelDescription
from regard.models.load import read_model
from regard.models.translation_model import TranslationModel

Ids = Sequence[int]


class LiveModel:
    def __init__(
        self, folder: Path, description: ModelDescription, precision: Precision, engine: Engine | None
    ) -> None:
        """`engine`: that of the same folder, where there is one."""
        self.precision: Precision = precision
        self.engine = engine
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.model = read_model(folder, description.model, TranslationModel, "translate").to(self.device)  # type: ignore[type-abstract]
        self.taps = [module for module in self.model.modules() if isinstance(module, Tap)]

    @property
    def observed(self) -> bool:
        """Whether a tap is hooked: the engine has no taps, so that the model itself must be searched."""
        return any(tap.hooked for tap in self.taps)

    @functools.cached_property
    def fastest(self) -> Engine | SearchModel[Any]:
        return self.engine or build_searcher(self.model, self.precision)

    @property
    def searcher(self) -> Engine | SearchModel[Any]:
        return self.model if self.observed else self.fastest

    def score(
        self,
        sources: Sequence[Ids],
        translations: Sequence[Ids],
        config: DecodeConfig,
        done: Callable[[int], None],
    ) -> list[Hypothesis]:
        longest = [max(len(s), len(t)) + 1 for s, t in zip(sources, translations, strict=True)]
        scored: dict[int, Hypothesis] = {}
        for batch in plan_batches(longest, config.batch_tokens):
            src_BM = pad_sources([sources[i] for i in batch], self.device)
            chosen = [translations[i] for i in batch]
            how: dict[str, Any] = {"length_penalty": config.length_penalty, "rule": config.beam_rule}
            results = score_translations(self.model, src_BM, chosen, **how)
            scored.update(zip(batch, results, strict=True))
            done(len(batch))
        return [scored[i] for i in range(len(sources))]
