"""Fast translation: the mathematics of models/transformer.py and of beam.py in C++.

Weights are packed once, in float32, bf16 or int8. The search of a whole batch is one call (engine.cpp), which runs on
one thread and releases Python's lock: several batches are searched in parallel, one core per batch. Constrained
searches (a forced prefix, blocked n-grams, sampling, an observer) run in Python, step by step, with the engine in place
of the model.

Shapes: B sentences, M source length, R rows, V vocabulary.
"""

from __future__ import annotations

import copy
import ctypes
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from regard.config import Precision, TransformerConfig
from regard.config.support import FULL_ONLY, MOE, MultipleOf, Support, any_value
from regard.core.attention.multi_head import MultiHeadAttention
from regard.core.feedforward import FeedForward
from regard.core.norms import LayerNorm
from regard.core.positions import LearnedPositions, Positions, RotaryPositions, SinusoidalPositions, sinusoids
from regard.core.precision import choose_dtype, cpu_has_vnni
from regard.decode.constraints import SUPPRESSED_IDS, non_finite_error
from regard.decode.hypotheses import Hypothesis, length_penalty_divisor
from regard.decode.protocols import SearchModel
from regard.errors import ConfigError
from regard.kernels import loader
from regard.kernels.loader import library
from regard.models.transformer import Transformer
from regard.models.translation_model import TranslationModel
from regard.tokenizers.special_ids import BOS, EOS, PAD

SOURCE = Path(loader.__file__).with_name("engine.cpp")
NumberFormat = Literal["float32", "bfloat16", "int8"]
NUMBER_FORMATS: tuple[NumberFormat, ...] = ("float32", "bfloat16", "int8")  # in the order of engine.cpp's enumeration
ACTIVATIONS = {"relu": 0, "gelu": 1, "swiglu": 2, "swish": 3}
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
            "ffn": tuple(ACTIVATIONS),
            "tie_embeddings": ("all", "output", "none"),
            "attention": FULL_ONLY,
            "moe": MOE,
            **any_value("n_heads", "n_encoder_layers", "n_decoder_layers", "max_positions", "output_bias"),
            **any_value("src_vocab_size", "tgt_vocab_size"),
            **any_value("dropout", "attention_dropout", "activation_dropout"),  # in training only
        }
    },
)
POINTER, INTEGER, FLOAT = ctypes.c_void_p, ctypes.c_int64, ctypes.c_float
FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "engine": (POINTER, (ctypes.c_int, POINTER, FLOAT, FLOAT, POINTER, POINTER, INTEGER)),
    "engine_free": (None, (POINTER,)),
    "begin": (POINTER, (POINTER, POINTER)),
    "state_free": (None, (POINTER,)),
    "step": (None, (POINTER, POINTER, POINTER)),
    "reorder": (None, (POINTER, POINTER, INTEGER)),
    "search": (INTEGER, (POINTER, POINTER, POINTER, INTEGER, INTEGER)),
}


class Sizes(ctypes.Structure):
    _fields_ = tuple(
        (name, INTEGER)
        for name in (
            *("d_model", "n_heads", "d_ff", "encoder_layers", "decoder_layers", "src_vocabulary", "tgt_vocabulary"),
            *("post", "centred", "activation", "output_bias", "rotary"),
        )
    )


class SourceTable(ctypes.Structure):
    _fields_ = (
        *((name, POINTER) for name in ("ids", "lengths")),
        *((name, INTEGER) for name in ("sentences", "max_length")),
        *((name, POINTER) for name in ("src_positions", "tgt_positions", "allowed")),
        ("n_allowed", INTEGER),
    )


class Search(ctypes.Structure):
    _fields_ = (
        *((name, INTEGER) for name in ("beam", "n_best")),
        *((name, POINTER) for name in ("max_lengths", "divisors")),
        ("room", INTEGER),
        *((name, POINTER) for name in ("ids", "log_probs", "totals", "lengths", "finished")),
    )


def build_searcher(model: TranslationModel, precision: Precision) -> SearchModel[Any]:
    """The engine where it supports the model and can be compiled on this machine, else the model itself."""
    form: NumberFormat = fastest_number_format() if precision == "auto" else precision
    if (engine := build_engine(model, form)) is not None:
        return engine
    if precision == "int8":
        reason = engine_refusal(model) or "its C++ code cannot be compiled here (`regard doctor` says why)"
        raise ConfigError(f"precision int8 needs the engine, but {reason}. Use bfloat16, float32 or auto")
    if choose_dtype(precision, model.output.weight.device) == torch.bfloat16:
        return copy.deepcopy(model).bfloat16()
    return model


def fastest_number_format() -> NumberFormat:
    """int8 where the CPU has instructions for it."""
    return "int8" if cpu_has_vnni() else "float32"


def engine_refusal(model: TranslationModel) -> str | None:
    """Why there is no engine for the model, in a sentence; None: the engine supports it."""
    weight = model.output.weight
    if weight.device.type != "cpu":
        return f"the engine runs on the CPU only, and the model is on {weight.device}"
    if weight.dtype != torch.float32:
        return f"the engine takes float32 weights, and the model's are {weight.dtype}"
    return SUPPORT.refusal(model.config)


def build_engine(model: TranslationModel, form: NumberFormat) -> Engine | None:
    """The engine of a model; None where it does not support the model or cannot be compiled on this machine."""
    if engine_refusal(model) is not None or not isinstance(model, Transformer):
        return None
    native = library(SOURCE)
    return None if native is None else Engine(model, form, native)


class Engine:
    """A SearchModel (decode/protocols.py) that also runs whole beam searches."""

    def __init__(self, model: Transformer, form: NumberFormat, native: ctypes.CDLL) -> None:
        self.model, self.form = model, form
        self.call = {name: bind(native, f"regard_{name}", *kinds) for name, kinds in FUNCTIONS.items()}
        self.src_positions = PositionTable(model.src_positions, model.config.d_model)
        self.tgt_positions = PositionTable(model.tgt_positions, model.config.d_model)
        # The C++ side packs the matrices, but reads embeddings and norms in place: these references keep them alive.
        self.weights = [tensor.detach() for tensor in list_weights(model)]
        addresses = np.array([tensor.data_ptr() for tensor in self.weights], np.uint64)
        suppressed = np.array(SUPPRESSED_IDS, np.int64)
        c = model.config
        norm = model.encoder[0].around_ffn.norm
        sizes = Sizes(
            *(c.d_model, c.n_heads, c.d_ff, c.n_encoder_layers, c.n_decoder_layers),
            *(c.src_vocab_size, c.tgt_vocab_size, c.norm_order == "post", isinstance(norm, LayerNorm)),
            *(ACTIVATIONS[c.ffn], model.output_bias is not None, c.position == "rotary"),
        )
        scale = model.tgt_embedding.scale
        self.handle = self.call["engine"](
            *(NUMBER_FORMATS.index(form), ctypes.addressof(sizes), norm.eps, scale),  # type: ignore[union-attr]
            *(addresses.ctypes.data, suppressed.ctypes.data, len(suppressed)),
        )
        self.allowed: npt.NDArray[np.int64] | None = None  # None: the whole vocabulary
        self.whole: Engine | None = None
        weakref.finalize(self, self.call["engine_free"], self.handle)

    def restricted(self, allowed: npt.NDArray[np.int64]) -> Engine:
        """The same engine, restricted to these tokens, which are sorted and unique.

        Probabilities are normalised over these; the logits of the others are not computed.
        """
        size = self.model.config.tgt_vocab_size
        assert len(allowed)
        assert 0 <= allowed.min() <= allowed.max() < size
        assert (np.diff(allowed) > 0).all()
        smaller = copy.copy(self)
        smaller.allowed = np.ascontiguousarray(allowed, np.int64)
        smaller.whole = self  # the owner of the handle
        return smaller

    @property
    def longest_target(self) -> int | None:
        return self.model.longest_target

    def __call__(self, src_BM: Tensor, tgt_BL: Tensor) -> Tensor:
        """The model's own logits: the engine has no advantage for whole targets."""
        return self.model(src_BM, tgt_BL)  # type: ignore[no-any-return]

    def sources(self, src_BM: Tensor, max_length: int) -> Sources:
        if (
            src_BM.numel() and src_BM.max() >= self.model.config.src_vocab_size
        ):  # the C++ side would read beyond the table
            raise IndexError(f"source token {src_BM.max()}, but this model has only {self.model.config.src_vocab_size}")
        real_BM = src_BM != PAD
        return Sources(self, src_BM[real_BM].numpy(), real_BM.sum(dim=1).numpy(), max_length)

    def begin(self, src_BM: Tensor, max_length: int) -> EngineState:
        """Encode, and allocate caches for `max_length` target tokens; one row per sentence."""
        sources = self.sources(src_BM, max_length)
        return EngineState(self, self.call["begin"](self.handle, sources.address), sources, max_length)

    def step(self, tokens_R: Tensor, state: EngineState) -> Tensor:
        """Feed one token per row; logits_RV of the next."""
        state.take_room()
        logits_RV = torch.empty(len(tokens_R), self.model.config.tgt_vocab_size)
        tokens_R = tokens_R.contiguous()
        self.call["step"](state.handle, tokens_R.data_ptr(), logits_RV.data_ptr())
        return logits_RV

    def beam_search(
        self, src_BM: Tensor, beam: int, length_penalty: float, max_lengths: Sequence[int], n_best: int
    ) -> list[list[Hypothesis]]:
        """The result of beam.py by the paper's rule, in one call, for at least one source."""
        room, places = max(max_lengths), len(src_BM) * n_best
        sources = self.sources(src_BM, room)
        divisors = np.array([length_penalty_divisor(length, length_penalty) for length in range(room + 1)])
        limits = np.array(max_lengths, np.int64)
        ids, log_probs = np.empty((places, room), np.int64), np.empty((places, room), np.float32)
        totals, lengths = np.empty(places, np.float32), np.empty(places, np.int64)
        finished = np.empty(places, np.int8)  # −1: no hypothesis
        how = Search(
            *(beam, n_best, limits.ctypes.data, divisors.ctypes.data, room, ids.ctypes.data),
            *(log_probs.ctypes.data, totals.ctypes.data, lengths.ctypes.data, finished.ctypes.data),
        )
        if place := self.call["search"](self.handle, sources.address, ctypes.addressof(how), BOS, EOS):
            raise non_finite_error(place)
        results: list[list[Hypothesis]] = [[] for _ in src_BM]
        for at in range(places):
            if finished[at] >= 0:
                length, total = int(lengths[at]), float(totals[at])
                written = tuple(ids[at, : length - bool(finished[at])].tolist())
                tokens = tuple(log_probs[at, :length].tolist())
                one = Hypothesis(written, total / float(divisors[length]), total, tokens, bool(finished[at]))
                results[at // n_best].append(one)
        return results


class Sources:
    """Concatenated source sentences, their lengths and position tables; owns the memory that its table points to."""

    def __init__(self, engine: Engine, ids: Any, lengths: Any, max_length: int) -> None:
        self.ids, self.lengths = np.ascontiguousarray(ids, np.int64), np.ascontiguousarray(lengths, np.int64)
        self.positions = (
            engine.src_positions.up_to(int(self.lengths.max(initial=1))),
            engine.tgt_positions.up_to(max_length),
        )
        self.allowed = engine.allowed
        places = (None if table is None else table.data_ptr() for table in self.positions)
        chosen = (None, 0) if self.allowed is None else (self.allowed.ctypes.data, len(self.allowed))
        self.table = SourceTable(
            *(self.ids.ctypes.data, self.lengths.ctypes.data, len(self.lengths), max_length, *places, *chosen)
        )

    @property
    def address(self) -> int:
        return ctypes.addressof(self.table)


class EngineState:
    """The keys and values of a search in the C++ engine."""

    def __init__(self, engine: Engine, handle: int, sources: Sources, room: int) -> None:
        self.engine, self.handle = engine, handle
        self.room = room  # tokens that can still be fed
        self.sources = sources  # kept alive: every step reads its position table
        weakref.finalize(self, free_state, engine, handle)

    def take_room(self) -> None:
        if self.room == 0:  # the C++ side would write beyond its cache
            raise IndexError("the cache is full: begin with a larger max_length")
        self.room -= 1

    def reorder(self, rows_R: Tensor) -> None:
        rows_R = rows_R.contiguous()
        self.engine.call["reorder"](self.handle, rows_R.data_ptr(), len(rows_R))


def free_state(engine: Engine, handle: int) -> None:
    """The argument keeps the engine alive until its state is freed, which returns the workspace to it."""
    engine.call["state_free"](handle)


class PositionTable:
    """One row per position: what is added to the embeddings, or the cosines and sines of rotary positions."""

    def __init__(self, positions: Positions, d_model: int) -> None:
        self.positions, self.d_model = positions, d_model
        self.table_LD = torch.empty(0, d_model)
        if isinstance(positions, LearnedPositions):
            self.table_LD = positions.table_LD.detach()

    def up_to(self, length: int) -> Tensor | None:
        """At least `length` rows; None where the model has no positions."""
        if type(self.positions) is Positions:
            return None
        if isinstance(self.positions, LearnedPositions):
            self.positions.check(length)
            return self.table_LD
        table_LD = self.table_LD  # read once: another thread may replace it by a shorter one
        if length > len(table_LD):
            self.table_LD = table_LD = self.rows(max(length, 256, 2 * len(table_LD)))
        return table_LD

    def rows(self, length: int) -> Tensor:
        match self.positions:
            case RotaryPositions() as rotary:
                return torch.cat(rotary.turns(torch.arange(length, dtype=torch.float32)), dim=1)
            case SinusoidalPositions():
                return sinusoids(length, self.d_model).float()
            case other:
                raise TypeError(f"the engine has no table for {type(other).__name__}")


def list_weights(model: Transformer) -> list[Tensor]:
    """The parameters in the order in which engine.cpp reads them."""
    listed: list[Tensor] = [model.src_embedding.weight, model.tgt_embedding.weight]

    def linear(part: nn.Module) -> None:
        listed.extend((part.weight, part.bias))  # type: ignore[arg-type]

    def norm(part: nn.Module) -> None:
        listed.extend((part.weight, part.bias) if isinstance(part, LayerNorm) else (part.weight,))  # type: ignore[arg-type]

    def attention(part: MultiHeadAttention, around: nn.Module) -> None:
        linear(part.qkv)
        linear(part.out)
        norm(around.norm)  # type: ignore[arg-type]

    def ffn(part: FeedForward, around: nn.Module) -> None:
        linear(part.up)
        linear(part.down)
        norm(around.norm)  # type: ignore[arg-type]

    for layer in [*model.encoder, *model.decoder]:
        attention(layer.attention, layer.around_attention)
        if hasattr(layer, "cross"):
            attention(layer.cross, layer.around_cross)
        ffn(layer.ffn, layer.around_ffn)
    if model.config.norm_order == "pre":
        norm(model.encoder_norm)
        norm(model.decoder_norm)
    listed.append(model.output.weight)
    if model.output_bias is not None:
        listed.append(model.output_bias)
    return listed


def bind(native: ctypes.CDLL, name: str, result: Any, arguments: Sequence[Any]) -> ctypes._NamedFuncPointer:
    """A C function with its result and argument types declared, so that calls take plain numbers."""
    function = native[name]
    function.restype, function.argtypes = result, arguments
    return function
