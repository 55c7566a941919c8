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
from regard.kernels.bindings import ENGINE, BeamCall, EngineHandle, ModelSizes, SourceBatch, StateHandle, array_address
from regard.kernels.loader import NativeLibrary, library
from regard.kernels.training import address_of
from regard.models.transformer import Transformer
from regard.models.translation_model import TranslationModel
from regard.tokenizers.special_ids import BOS, EOS, PAD

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
    native = library(ENGINE)
    return None if native is None else Engine(model, form, native)


class Engine:
    """A SearchModel (decode/protocols.py) that also runs whole beam searches."""

    def __init__(self, model: Transformer, form: NumberFormat, native: NativeLibrary) -> None:
        self.model, self.form = model, form
        self.native = native
        self.src_positions = PositionTable(model.src_positions, model.config.d_model)
        self.tgt_positions = PositionTable(model.tgt_positions, model.config.d_model)
        # The C++ side packs the matrices, but reads embeddings and norms in place: these references keep them alive.
        self.weights = [tensor.detach() for tensor in list_weights(model)]
        addresses = np.array([address_of(tensor, torch.float32) for tensor in self.weights], np.uint64)
        suppressed = np.array(SUPPRESSED_IDS, np.int64)
        c = model.config
        norm = model.encoder[0].around_ffn.norm
        sizes = ModelSizes(
            *(c.d_model, c.n_heads, c.d_ff, c.n_encoder_layers, c.n_decoder_layers),
            *(c.src_vocab_size, c.tgt_vocab_size, c.norm_order == "post", isinstance(norm, LayerNorm)),
            *(ACTIVATIONS[c.ffn], model.output_bias is not None, c.position == "rotary"),
        )
        scale = model.tgt_embedding.scale
        self.handle = EngineHandle()
        native["engine"](
            *(NUMBER_FORMATS.index(form), ctypes.byref(sizes), norm.eps, scale),  # type: ignore[union-attr]
            *(addresses, len(addresses), suppressed, len(suppressed), ctypes.byref(self.handle)),
        )
        self.allowed: npt.NDArray[np.int64] | None = None  # the allowed target tokens, in order
        self.unrestricted: Engine | None = None
        weakref.finalize(self, native["engine_free"], self.handle)

    def restricted(self, allowed: npt.NDArray[np.int64]) -> Engine:
        """The same engine restricted to these target tokens, which are in ascending order.

        Probabilities are normalised over these; the logits of other tokens are not computed.
        """
        size = self.model.config.tgt_vocab_size
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
        return self.model.longest_target

    def __call__(self, src_BM: Tensor, tgt_BL: Tensor) -> Tensor:
        """Logits of whole targets, from the model: the engine would not be faster."""
        return self.model(src_BM, tgt_BL)  # type: ignore[no-any-return]

    def sources(self, src_BM: Tensor, max_length: int) -> Sources:
        real_BM = src_BM != PAD
        return Sources(self, src_BM[real_BM].numpy(), real_BM.sum(dim=1).numpy(), max_length)

    def begin(self, src_BM: Tensor, max_length: int) -> EngineState:
        """Encode, with space for `max_length` target tokens; one row per sentence."""
        sources, handle = self.sources(src_BM, max_length), StateHandle()
        self.native["begin"](self.handle, sources.reference, ctypes.byref(handle))
        return EngineState(self, handle, sources, max_length)

    def step(self, tokens_R: Tensor, state: EngineState) -> Tensor:
        """Feed one token per row; logits_RV of the next."""
        state.count_step()
        logits_RV = torch.empty(len(tokens_R), self.model.config.tgt_vocab_size)
        self.native["step"](state.handle, tokens_R.contiguous().numpy(), len(tokens_R), logits_RV.numpy())
        return logits_RV

    def beam_search(
        self, src_BM: Tensor, beam: int, length_penalty: float, max_lengths: Sequence[int], n_best: int
    ) -> list[list[Hypothesis]]:
        """What beam.py finds with the paper's stopping rule, in one call. There is at least one source."""
        max_length, places = max(max_lengths), len(src_BM) * n_best
        sources = self.sources(src_BM, max_length)
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
        self.native["search"](*(self.handle, sources.reference, ctypes.byref(call), BOS, EOS, ctypes.byref(not_finite)))
        if not_finite.value:
            raise non_finite_error(not_finite.value)
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
        tables = (None if table is None else address_of(table, torch.float32) for table in self.positions)
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

    def reorder(self, rows_R: Tensor) -> None:
        self.engine.native["reorder"](self.handle, rows_R.contiguous().numpy(), len(rows_R))


def free_state(engine: Engine, handle: Any) -> None:
    """The argument keeps the engine alive until then: the state returns its workspace to it."""
    engine.native["state_free"](handle)


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
                return torch.cat(rotary.cos_sin(torch.arange(length, dtype=torch.float32)), dim=1)
            case SinusoidalPositions():
                return sinusoids(length, self.d_model).float()
            case other:
                raise TypeError(f"the engine has no table for {type(other).__name__}")


def list_weights(model: Transformer) -> list[Tensor]:
    """The parameters in the order in which engine_model.h reads them."""
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
