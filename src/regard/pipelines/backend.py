"""What computes the translations of a model folder: the C++ engine, numpy, or the model in PyTorch.

| backend                     | when                                                                              |
|-----------------------------|-----------------------------------------------------------------------------------|
| decode/engine.py            | it supports the model, and its library can be loaded                              |
| decode/numpy_transformer.py | it supports the model, but its library cannot be loaded                           |
| live_model.py (torch)       | any other model, a GPU, a search that the others do not have, and observed models |

torch is imported only for the last.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from regard.config import DecodeConfig, Precision, TransformerConfig
from regard.decode.engine import Engine, engine_from_folder, fastest_number_format
from regard.decode.engine_search import engine_score, engine_search
from regard.decode.engine_support import SUPPORT
from regard.decode.hypotheses import Hypothesis
from regard.decode.shortlist import Shortlist
from regard.errors import ConfigError
from regard.extras import installed, require
from regard.kernels.bindings import ENGINE
from regard.kernels.loader import library
from regard.model_folder.folder import ModelDescription, map_weights

if TYPE_CHECKING:
    from regard.decode.engine_weights import Weights
    from regard.decode.numpy_transformer import NumpyTransformer
    from regard.pipelines.live_model import LiveModel

Ids = Sequence[int]
GPU_DRIVERS = ("/proc/driver/nvidia", "/dev/kfd")  # asking torch for a GPU takes a second


class Backend:
    def __init__(self, folder: Path, description: ModelDescription, precision: Precision) -> None:
        self.folder, self.description, self.precision = folder, description, precision
        self.engine: Engine | None = None
        refusal = SUPPORT.refusal(description.model)
        self.supported = refusal is None and not has_gpu()
        if self.supported:
            form = fastest_number_format() if precision == "auto" else precision
            self.engine = engine_from_folder(folder, description, form)
        if self.engine is None and precision == "int8":
            reason = refusal or "its C++ library cannot be loaded here (`regard doctor` says why)"
            raise ConfigError(f"precision int8 needs the engine, but {reason}. Use bfloat16, float32 or auto")
        self.longest_target = self.find_longest_target()

    def find_longest_target(self) -> int | None:
        """The maximum length of a target, in tokens; None: no limit. The model is loaded, so that errors come now."""
        if self.engine is not None:
            return self.engine.longest_target
        return self.live.model.longest_target if self.plain is None else self.plain.longest_target

    @functools.cached_property
    def exact_engine(self) -> Engine | None:
        """The engine in float32."""
        if self.engine is None or self.engine.form == "float32":
            return self.engine
        return engine_from_folder(self.folder, self.description, "float32")

    @functools.cached_property
    def plain(self) -> NumpyTransformer | None:
        """The model in numpy, in place of an engine without its library; it has float32 only."""
        config = self.description.model
        if not self.supported or library(ENGINE) is not None or self.precision == "bfloat16":
            return None
        weights = map_weights(self.folder, config)
        if not isinstance(config, TransformerConfig) or config.ffn == "moe" or is_float64(weights):
            return None
        from regard.decode.engine_weights import check_weights
        from regard.decode.numpy_transformer import NumpyTransformer

        check_weights(config, weights, self.folder)
        return NumpyTransformer(config, weights)

    @functools.cached_property
    def live(self) -> LiveModel:
        what = SUPPORT.refusal(self.description.model)
        require("torch", f"{self.folder} is not a model of the engine ({what}), and it" if what else "this")
        from regard.pipelines.live_model import LiveModel

        return LiveModel(self.folder, self.description, self.precision, self.engine)

    @property
    def observed(self) -> bool:
        """Whether the model in PyTorch is there, and one of its taps is hooked."""
        return "live" in self.__dict__ and self.live.observed

    def search(
        self,
        sources: Sequence[Ids],
        config: DecodeConfig,
        n_best: int = 1,
        prefixes: Sequence[Ids] | None = None,
        done: Callable[[Sequence[int]], None] = lambda indices: None,
        shortlist: Shortlist | None = None,
    ) -> list[list[Hypothesis]]:
        """The best hypotheses of each source (ids without EOS). `done` is called with the indices of finished ones."""
        if not self.observed and self.engine is not None:
            return engine_search(self.engine, sources, config, n_best, done, shortlist, prefixes=prefixes)
        beam_search = config.method == "beam" and config.beam_rule == "paper"
        if not self.observed and self.plain is not None and beam_search:
            from regard.decode.numpy_search import numpy_search

            return numpy_search(self.plain, sources, config, n_best, prefixes, done, shortlist)
        live = self.live
        from regard.decode.search import search

        return search(live.searcher, sources, config, live.device, n_best, prefixes, done, shortlist=shortlist)

    def score(
        self,
        sources: Sequence[Ids],
        translations: Sequence[Ids],
        config: DecodeConfig,
        done: Callable[[int], None] = lambda count: None,
    ) -> list[Hypothesis]:
        """The log-probabilities of given translations, in float32."""
        if not self.observed and self.exact_engine is not None:
            scored = engine_score(self.exact_engine, sources, translations, config, lambda batch: done(len(batch)))
            return [one.hypothesis for one in scored]
        if not self.observed and self.plain is not None:
            from regard.decode.numpy_search import numpy_scores

            return numpy_scores(self.plain, sources, translations, config, done)
        return self.live.score(sources, translations, config, done)


def is_float64(weights: Weights) -> bool:
    return any(array.dtype == np.float64 for array in weights.values())


def has_gpu() -> bool:
    if not any(map(os.path.exists, GPU_DRIVERS)) or not installed("torch"):
        return False
    import torch

    return torch.cuda.is_available()
