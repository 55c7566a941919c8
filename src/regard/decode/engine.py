"""Fast search: the mathematics of the models and of the searches of this folder in C++, without torch.

The engine takes the weights of a model folder as they are stored there, and packs them once, in float32, bf16 or int8.
The search of a whole batch is one call (engine.cpp), which runs on one thread and releases Python's lock: several
batches are searched in parallel, one core per batch (engine_search.py). The searches in Python (beam.py, sampling.py,
scoring.py) are the reference, and for models that the engine does not support.

Shapes: R rows, V vocabulary, L target length, M source length.
"""

from __future__ import annotations

import copy
import ctypes
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from regard.config import BeamRule
from regard.decode.checks import (
    HUGGINGFACE_SUPPRESSED_IDS,
    SUPPRESSED_IDS,
    check_beam_options,
    check_ids,
    check_lengths,
    check_prefixes,
    check_sampling_options,
    non_finite_error,
)
from regard.decode.engine_control import SearchControl
from regard.decode.engine_positions import PositionTable, Tables
from regard.decode.engine_shape import EngineConfig, has_engine, shape_of
from regard.decode.engine_support import SUPPORT
from regard.decode.engine_weights import Weights, check_weights, stored_tensors
from regard.decode.hypotheses import Hypothesis, length_penalty_divisor
from regard.errors import ConfigError
from regard.kernels.bindings import (
    ENGINE,
    EngineHandle,
    ScoreCall,
    SearchCall,
    SourceBatch,
    StateHandle,
    array_address,
)
from regard.kernels.instruction_sets import has_int8
from regard.kernels.loader import library
from regard.model_folder.folder import ModelDescription, map_weights
from regard.tokenizers.special_ids import BOS, EOS

NumberFormat = Literal["float32", "bfloat16", "int8"]
NUMBER_FORMATS: tuple[NumberFormat, ...] = ("float32", "bfloat16", "int8")  # in the order of engine.cpp's enumeration
BEAM_RULES: tuple[BeamRule, ...] = ("paper", "huggingface")  # in the order of engine_search.h's enumeration
CANCELLED = -1  # the outcome of a search
Ids = Sequence[int]
Logits = npt.NDArray[np.float32]
Tokens = npt.NDArray[np.int64]


def fastest_number_format() -> NumberFormat:
    """int8 where the CPU has instructions for it."""
    return "int8" if has_int8() else "float32"


def engine_from_folder(folder: Path, description: ModelDescription, form: NumberFormat) -> Engine | None:
    """The engine of a model folder; None where it does not support the model or has no library on this machine."""
    opened = open_engine(folder, description, form)
    return None if opened is None else opened[0]


def open_engine(folder: Path, description: ModelDescription, form: NumberFormat) -> tuple[Engine, Weights] | None:
    """The engine and the weights of a model folder, as `engine_from_folder`."""
    config = description.model
    if SUPPORT.refusal(config) is not None or not has_engine(config) or library(ENGINE) is None:
        return None
    weights = map_weights(folder, config)
    if any(array.dtype == np.float64 for array in weights.values()):
        return None
    check_weights(config, weights, folder)
    return Engine(config, weights, form), weights


class Engine:
    """A model packed for search: step by step, or whole beam searches."""

    def __init__(self, config: EngineConfig, weights: Weights, form: NumberFormat) -> None:
        """`weights` by their names in the model folder, as engine_weights.py describes them."""
        SUPPORT.check(config)
        native = library(ENGINE)
        if native is None:
            raise ConfigError("there is no engine on this machine (`regard doctor` says why)")
        self.config, self.form, self.native = config, form, native
        shape = self.shape = shape_of(config)
        stacks = (shape.encoder, shape.decoder)
        self.src_positions, self.tgt_positions = (
            None if stack is None else PositionTable(shape, stack, weights) for stack in stacks
        )
        tensors, held = stored_tensors(shape, weights)
        self.tables = held[: sum(stack is not None for stack in stacks)]  # the embeddings are read in place
        self.vocabulary = 0 if shape.decoder is None else shape.decoder.vocabulary
        self.handle = EngineHandle()
        native["engine"](
            *(NUMBER_FORMATS.index(form), ctypes.byref(shape.settings()), tensors, len(tensors)),
            ctypes.byref(self.handle),
        )
        self.allowed: Tokens | None = None  # the allowed target tokens, in order
        self.unrestricted: Engine | None = None
        weakref.finalize(self, native["engine_free"], self.handle)

    def restricted(self, allowed: Tokens) -> Engine:
        """The same engine restricted to these target tokens, which are in ascending order.

        Probabilities are normalised over these; the logits of other tokens are not computed.
        """
        size = self.vocabulary
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
        return self.shape.max_positions if self.shape.position == "learned" else None

    def begin(self, sources: Sequence[Ids], max_length: int) -> EngineState:
        """Encode sources (with their EOS), with space for `max_length` target tokens; one row per source."""
        batch, handle = Sources(self, sources, max_length), StateHandle()
        self.native["begin"](self.handle, batch.reference, ctypes.byref(handle))
        return EngineState(self, handle, batch, max_length)

    def step(self, tokens_R: Tokens, state: EngineState) -> Logits:
        """Feed one token per row; logits_RV of the next."""
        state.count_step()
        logits_RV = np.empty((len(tokens_R), self.vocabulary), np.float32)
        self.native["step"](state.handle, np.ascontiguousarray(tokens_R), len(tokens_R), logits_RV)
        return logits_RV

    def beam_search(
        self,
        sources: Sequence[Ids],
        *,
        beam: int,
        length_penalty: float,
        max_lengths: Sequence[int],
        rule: BeamRule = "paper",
        n_best: int = 1,
        no_repeat_ngram: int = 0,
        prefixes: Sequence[Ids] | None = None,
        forbidden: Ids = (),
        control: SearchControl | None = None,
    ) -> list[list[Hypothesis]]:
        """What `beam_search` of beam.py finds; `sources` are ids with their EOS."""
        check_beam_options(beam, length_penalty, n_best)
        call = Call(self, sources, max_lengths, n_best, length_penalty, rule, no_repeat_ngram, prefixes, forbidden)
        call.structure.beam = beam
        return call.run(control)

    def sample(
        self,
        sources: Sequence[Ids],
        *,
        temperature: float,
        top_k: int,
        top_p: float,
        seeds: Sequence[int],
        max_lengths: Sequence[int],
        n_samples: int = 1,
        length_penalty: float = 0.6,
        rule: BeamRule = "paper",
        no_repeat_ngram: int = 0,
        prefixes: Sequence[Ids] | None = None,
        forbidden: Ids = (),
        control: SearchControl | None = None,
    ) -> list[list[Hypothesis]]:
        """What `sample_search` of sampling.py draws; `sources` are ids with their EOS."""
        check_sampling_options(temperature, top_k, top_p, n_samples)
        if len(seeds) != len(sources):
            raise ConfigError(f"there are {len(sources)} sentences but {len(seeds)} seeds; give one each")
        call = Call(
            *(self, sources, max_lengths, n_samples, length_penalty, rule, no_repeat_ngram, prefixes, forbidden),
            suppressed=SUPPRESSED_IDS,
        )
        call.structure.temperature, call.structure.top_k, call.structure.top_p = temperature, top_k, top_p
        call.structure.seeds = call.hold(np.array(seeds, np.uint64))
        return call.run(control)

    def score(
        self,
        sources: Sequence[Ids],
        translations: Sequence[Ids],
        length_penalty: float = 0.6,
        rule: BeamRule = "paper",
        head_weights: npt.NDArray[np.float32] | None = None,
    ) -> list[Scored]:
        """What `score_translations` of scoring.py finds; `sources` are ids with their EOS, translations without.

        With `head_weights`, one per layer and head of the decoder, also the sums of the attentions to the source.
        """
        if len(translations) != len(sources):
            raise ConfigError(f"there are {len(sources)} sources but {len(translations)} translations; give one each")
        for number, ids in enumerate(translations, start=1):
            check_ids(ids, f"translation {number}")
        if not translations:
            return []
        lengths = np.array([len(ids) + 1 for ids in translations], np.int64)
        wanted = np.array([token for ids in translations for token in (*ids, EOS)], np.int64)
        batch = Sources(self, sources, int(lengths.max()))
        log_probs = np.empty(len(wanted), np.float32)
        call = ScoreCall(array_address(wanted, np.int64), array_address(lengths, np.int64), BOS)
        call.log_probs = array_address(log_probs, np.float32)
        sizes = lengths * batch.lengths
        attention = np.empty(0 if head_weights is None else sizes.sum(), np.float32)
        if head_weights is not None:
            assert self.shape.decoder is not None
            expected = (self.shape.decoder.n_layers, self.shape.n_heads)
            if head_weights.shape != expected:
                raise ValueError(f"the weights of the heads are {head_weights.shape}; the decoder has {expected}")
            call.head_weights = array_address(head_weights, np.float32)
            call.attention = array_address(attention, np.float32)
        outcome = ctypes.c_int64()
        self.native["score"](self.handle, batch.reference, ctypes.byref(call), ctypes.byref(outcome))
        if outcome.value:
            raise non_finite_error(outcome.value)
        maps = np.split(attention, np.cumsum(sizes)[:-1]) if head_weights is not None else [None] * len(sources)
        found = []
        for ids, row, length, weights in zip(
            translations, np.split(log_probs, np.cumsum(lengths)[:-1]), batch.lengths, maps, strict=True
        ):
            tokens = tuple(row.tolist())
            score = sum(tokens) / length_penalty_divisor(len(tokens), length_penalty, rule)
            hypothesis = Hypothesis(tuple(ids), score, sum(tokens), tokens, finished=True)
            found.append(Scored(hypothesis, None if weights is None else weights.reshape(-1, length)))
        return found


@dataclass(frozen=True)
class Scored:
    """A given translation with its probabilities, and the attention of its tokens (EOS too) to those of the source."""

    hypothesis: Hypothesis
    attention_LM: npt.NDArray[np.float32] | None


class Call:
    """One search of the engine: its options, the memory for its results, and everything that it points to."""

    def __init__(
        self,
        engine: Engine,
        sources: Sequence[Ids],
        max_lengths: Sequence[int],
        n_best: int,
        length_penalty: float,
        rule: BeamRule,
        no_repeat_ngram: int,
        prefixes: Sequence[Ids] | None,
        forbidden: Ids,
        suppressed: Ids | None = None,
    ) -> None:
        check_lengths(max_lengths, len(sources))
        if suppressed is None:
            suppressed = HUGGINGFACE_SUPPRESSED_IDS if rule == "huggingface" else SUPPRESSED_IDS
        self.engine, self.n_best = engine, n_best
        longest, places = max(max_lengths, default=1), len(sources) * n_best
        self.batch = Sources(engine, sources, longest)
        self.divisors = np.array([length_penalty_divisor(n, length_penalty, rule) for n in range(1, longest + 1)])
        self.ids = np.empty((places, longest), np.int64)
        self.log_probs = np.empty((places, longest), np.float32)
        self.totals, self.lengths = np.empty(places, np.float32), np.empty(places, np.int64)
        self.finished = np.empty(places, np.int8)  # −1: no hypothesis
        self.held: list[Any] = []
        never = np.array([*suppressed, *forbidden], np.int64)
        self.structure = SearchCall(
            rule=BEAM_RULES.index(rule),
            n_best=n_best,
            max_lengths=self.hold(np.array(max_lengths, np.int64)),
            divisors=self.hold(np.concatenate([[1.0], self.divisors])),
            suppressed=self.hold(never),
            n_suppressed=len(never),
            no_repeat_ngram=no_repeat_ngram,
            max_length=longest,
            **{name: self.hold(getattr(self, name)) for name in ("ids", "log_probs", "totals", "lengths", "finished")},
        )
        if prefixes is not None:
            check_prefixes(prefixes, max_lengths)
            starts = np.cumsum([0, *map(len, prefixes)], dtype=np.int64)
            self.structure.prefix_starts = self.hold(starts)
            # One more than there are, since an empty array has no address.
            self.structure.prefixes = self.hold(np.array([*(t for ids in prefixes for t in ids), EOS], np.int64))

    def hold(self, array: npt.NDArray[Any]) -> int:
        """The address of an array, which is kept."""
        self.held.append(array)
        return array_address(array, array.dtype.type)

    def run(self, control: SearchControl | None) -> list[list[Hypothesis]]:
        if control is not None:
            self.structure.cancelled = ctypes.addressof(control.flag)
            self.structure.observe = control.observer(self.ids.shape[1])
        outcome, engine = ctypes.c_int64(), self.engine
        call = (engine.handle, self.batch.reference, ctypes.byref(self.structure), BOS, EOS, ctypes.byref(outcome))
        engine.native["search"](*call)
        if outcome.value == CANCELLED and control is not None:
            control.raise_cancelled()
        if outcome.value:
            raise non_finite_error(outcome.value)
        results: list[list[Hypothesis]] = [[] for _ in range(len(self.lengths) // self.n_best)]
        for at in range(len(self.lengths)):
            if self.finished[at] >= 0:
                results[at // self.n_best].append(self.hypothesis(at))
        return results

    def hypothesis(self, at: int) -> Hypothesis:
        length, total, finished = int(self.lengths[at]), float(self.totals[at]), bool(self.finished[at])
        ids = tuple(self.ids[at, : length - finished].tolist())
        score = total / float(self.divisors[length - 1]) if length else 0.0
        return Hypothesis(ids, score, total, tuple(self.log_probs[at, :length].tolist()), finished)


class Sources:
    """Concatenated source sentences, their lengths and position tables; owns the memory that its batch points to."""

    def __init__(self, engine: Engine, sources: Sequence[Ids], max_length: int) -> None:
        self.lengths = np.array([len(ids) for ids in sources], np.int64)
        self.ids = np.array([token for ids in sources for token in ids], np.int64)
        longest = (int(self.lengths.max(initial=1)), max_length)
        self.positions = [
            Tables(0, None, None) if positions is None else positions.up_to(length)
            for positions, length in zip((engine.src_positions, engine.tgt_positions), longest, strict=True)
        ]
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
