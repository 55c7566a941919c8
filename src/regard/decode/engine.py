"""Fast translation: the mathematics of models/transformer.py and of beam.py in C++, without torch.

The engine takes the weights of a model folder as they are stored there, and packs them once, in float32, bf16 or int8.
The search of a whole batch is one call (engine.cpp), which runs on one thread and releases Python's lock: several
batches are searched in parallel, one core per batch (engine_search.py).

Shapes: R rows, V vocabulary.
"""

from __future__ import annotations

import copy
import ctypes
import math
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from regard.config import FamilyConfig, TransformerConfig
from regard.config.support import FULL_ONLY, MOE, MultipleOf, Support, any_value
from regard.decode.checks import SUPPRESSED_IDS, non_finite_error
from regard.decode.engine_positions import PositionTable
from regard.decode.engine_weights import Weights, check_weights, stored_tensors
from regard.decode.hypotheses import Hypothesis, length_penalty_divisor
from regard.errors import ConfigError
from regard.kernels.bindings import (
    ENGINE,
    BeamCall,
    EngineHandle,
    ModelSettings,
    SourceBatch,
    StateHandle,
    array_address,
)
from regard.kernels.loader import library
from regard.model_folder.folder import ModelDescription, map_weights
from regard.tokenizers.special_ids import BOS, EOS

NumberFormat = Literal["float32", "bfloat16", "int8"]
NUMBER_FORMATS: tuple[NumberFormat, ...] = ("float32", "bfloat16", "int8")  # in the order of engine.cpp's enumeration
# In the order of engine_rows.h's enumeration.
ACTIVATIONS = ("relu", "gelu", "swiglu", "swish", "gelu_tanh", "geglu")
NORM_EPS = {"layernorm": 1e-5, "rmsnorm": 1e-6}
SUPPORT = Support(
    "the engine",
    {
        TransformerConfig: {
            "family": ("transformer",),
            "d_model": MultipleOf(4),  # int8 products take four bytes at a time
            "d_ff": MultipleOf(4),
            "position": ("sinusoidal", "learned", "rotary", "none"),
            "norm_order": ("post", "pre"),
            "norm": ("layernorm", "rmsnorm"),
            "ffn": ("relu", "gelu", "swish", "swiglu"),
            "tie_embeddings": ("all", "output", "none"),
            "attention": FULL_ONLY,
            "decoder_attention": FULL_ONLY,
            "cross_attention": FULL_ONLY,
            "residual": ("standard",),
            "moe": MOE,
            **any_value("n_heads", "n_encoder_layers", "n_decoder_layers", "max_positions", "output_bias"),
            **any_value("src_vocab_size", "tgt_vocab_size"),
            **any_value("dropout", "attention_dropout", "activation_dropout"),  # in training only
        }
    },
)

Ids = Sequence[int]
Logits = npt.NDArray[np.float32]
Tokens = npt.NDArray[np.int64]


def engine_from_folder(folder: Path, description: ModelDescription, form: NumberFormat) -> Engine | None:
    """The engine of a model folder; None where it does not support the model or has no library on this machine."""
    config: FamilyConfig = description.model
    if SUPPORT.refusal(config) is not None or not isinstance(config, TransformerConfig) or library(ENGINE) is None:
        return None
    weights = map_weights(folder, config)
    if any(array.dtype == np.float64 for array in weights.values()):
        return None
    check_weights(config, weights, folder)
    return Engine(config, weights, form)


class Engine:
    """A model packed for search: step by step, or whole beam searches."""

    def __init__(self, config: TransformerConfig, weights: Weights, form: NumberFormat) -> None:
        """`weights` by their names in the model folder, as engine_weights.py describes them."""
        SUPPORT.check(config)
        native = library(ENGINE)
        if native is None:
            raise ConfigError("there is no engine on this machine (`regard doctor` says why)")
        self.config, self.form, self.native = config, form, native
        self.src_positions, self.tgt_positions = (PositionTable(config, weights, side) for side in ("src", "tgt"))
        settings = model_settings(config)
        tensors, held = stored_tensors(config, weights)
        self.tables = held[:2]  # the C++ side packs the matrices, but reads the embeddings in place
        suppressed = np.array(SUPPRESSED_IDS, np.int64)
        self.handle = EngineHandle()
        native["engine"](
            *(NUMBER_FORMATS.index(form), ctypes.byref(settings), tensors, len(tensors)),
            *(suppressed, len(suppressed), ctypes.byref(self.handle)),
        )
        self.allowed: Tokens | None = None  # the allowed target tokens, in order
        self.unrestricted: Engine | None = None
        weakref.finalize(self, native["engine_free"], self.handle)

    def restricted(self, allowed: Tokens) -> Engine:
        """The same engine restricted to these target tokens, which are in ascending order.

        Probabilities are normalised over these; the logits of other tokens are not computed.
        """
        size = self.config.tgt_vocab_size
        if not len(allowed):
            raise ValueError("there are no allowed target tokens; give at least one")
        if not 0 <= allowed.min() <= allowed.max() < size:
            raise IndexError(f"allowed target tokens go from {allowed.min()} to {allowed.max()}; the model has {size}")
        if not (np.diff(allowed) > 0).all():
            raise ValueError("allowed target tokens must be in ascending order, without repetition")
        restricted = copy.copy(self)
        restricted.allowed = np.ascontiguousarray(allowed, np.int64)
        restricted.unrestricted = self  # which frees the handle
        return restricted

    @property
    def longest_target(self) -> int | None:
        """The maximum length of a target, in tokens; None: no limit."""
        return self.config.max_positions if self.config.position == "learned" else None

    def begin(self, sources: Sequence[Ids], max_length: int) -> EngineState:
        """Encode sources (with their EOS), with space for `max_length` target tokens; one row per source."""
        batch, handle = Sources(self, sources, max_length), StateHandle()
        self.native["begin"](self.handle, batch.reference, ctypes.byref(handle))
        return EngineState(self, handle, batch, max_length)

    def step(self, tokens_R: Tokens, state: EngineState) -> Logits:
        """Feed one token per row; logits_RV of the next."""
        state.count_step()
        logits_RV = np.empty((len(tokens_R), self.config.tgt_vocab_size), np.float32)
        self.native["step"](state.handle, np.ascontiguousarray(tokens_R), len(tokens_R), logits_RV)
        return logits_RV

    def beam_search(
        self, sources: Sequence[Ids], beam: int, length_penalty: float, max_lengths: Sequence[int], n_best: int
    ) -> list[list[Hypothesis]]:
        """What beam.py finds with the paper's stopping rule, in one call. There is at least one source."""
        max_length, places = max(max_lengths), len(sources) * n_best
        batch = Sources(self, sources, max_length)
        divisors = np.array([length_penalty_divisor(length, length_penalty) for length in range(max_length + 1)])
        limits = np.array(max_lengths, np.int64)
        ids, log_probs = np.empty((places, max_length), np.int64), np.empty((places, max_length), np.float32)
        totals, lengths = np.empty(places, np.float32), np.empty(places, np.int64)
        finished = np.empty(places, np.int8)  # −1: no hypothesis
        call = BeamCall(
            *(beam, n_best, array_address(limits, np.int64), array_address(divisors, np.float64), max_length),
            *(array_address(ids, np.int64), array_address(log_probs, np.float32)),
            *(array_address(totals, np.float32), array_address(lengths, np.int64), array_address(finished, np.int8)),
        )
        not_finite = ctypes.c_int64()
        self.native["search"](*(self.handle, batch.reference, ctypes.byref(call), BOS, EOS, ctypes.byref(not_finite)))
        if not_finite.value:
            raise non_finite_error(not_finite.value)
        results: list[list[Hypothesis]] = [[] for _ in sources]
        for at in range(places):
            if finished[at] >= 0:
                length, total = int(lengths[at]), float(totals[at])
                written = tuple(ids[at, : length - bool(finished[at])].tolist())
                tokens = tuple(log_probs[at, :length].tolist())
                one = Hypothesis(written, total / float(divisors[length]), total, tokens, bool(finished[at]))
                results[at // n_best].append(one)
        return results


def model_settings(c: TransformerConfig) -> ModelSettings:
    head_size = c.d_model // c.n_heads
    return ModelSettings(
        *(c.d_model, c.n_heads, head_size, c.d_ff, c.n_encoder_layers, c.n_decoder_layers),
        *(c.src_vocab_size, c.tgt_vocab_size, c.norm_order == "post", c.norm == "layernorm"),
        *(ACTIVATIONS.index(c.ffn), True, c.output_bias, c.position == "rotary"),
        *(NORM_EPS[c.norm], math.sqrt(c.d_model), 1 / np.sqrt(np.float32(head_size)), 1.0),
    )


class Sources:
    """Concatenated source sentences, their lengths and position tables; owns the memory that its batch points to."""

    def __init__(self, engine: Engine, sources: Sequence[Ids], max_length: int) -> None:
        self.lengths = np.array([len(ids) for ids in sources], np.int64)
        self.ids = np.array([token for ids in sources for token in ids], np.int64)
        self.positions = (
            engine.src_positions.up_to(int(self.lengths.max(initial=1))),
            engine.tgt_positions.up_to(max_length),
        )
        self.allowed = engine.allowed
        tables = (tables.pointers for tables in self.positions)
        allowed = (None, 0) if self.allowed is None else (array_address(self.allowed, np.int64), len(self.allowed))
        ids, counts = (array_address(array, np.int64) for array in (self.ids, self.lengths))
        self.batch = SourceBatch(ids, counts, len(self.lengths), max_length, *tables, *allowed)

    @property
    def reference(self) -> Any:
        return ctypes.byref(self.batch)


class EngineState:
    """The keys and values of a search in the C++ engine."""

    def __init__(self, engine: Engine, handle: Any, sources: Sources, max_length: int) -> None:
        self.engine, self.handle = engine, handle
        self.remaining = max_length  # tokens that can still be fed
        self.sources = sources  # whose position table is read at every step
        weakref.finalize(self, free_state, engine, handle)

    def count_step(self) -> None:
        if self.remaining == 0:
            raise IndexError("the cache is full: begin with a larger max_length")
        self.remaining -= 1

    def reorder(self, rows_R: Tokens) -> None:
        """Select these rows, in this order; a row may occur several times or not at all."""
        self.engine.native["reorder"](self.handle, np.ascontiguousarray(rows_R), len(rows_R))


def free_state(engine: Engine, handle: Any) -> None:
    """The argument keeps the engine alive until then: the state returns its workspace to it."""
    engine.native["state_free"](handle)
