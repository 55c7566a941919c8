"""The C interface of the kernels as Python sees it: structures, argument types and libraries, each listed once.

`loader.py` loads a library, compares its structures with those here, and binds every function to its argument types, so
that a call with a wrong type raises `ctypes.ArgumentError`. Every function returns a status, which the loader turns
into an exception; those that free return nothing. The library of the engine takes numpy arrays, those of `training.py`
torch tensors; only the latter imports torch.

| library  | kernels                                                         | fallback                            |
|----------|-----------------------------------------------------------------|-------------------------------------|
| ENGINE   | a Transformer and the searches through it                       | the model itself and decode/beam.py |
| TRAINING | loss, add & norm, ReLU, rotary positions, short attention, int8 | PyTorch, in the file that calls it  |
| MEMORY   | a memory region for large tensors                               | glibc's mallopt (memory.py)         |
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

INT, UINT, FLOAT, BOOL, INT32 = ctypes.c_int64, ctypes.c_uint64, ctypes.c_float, ctypes.c_bool, ctypes.c_int32
ADDRESS, DOUBLE = ctypes.c_void_p, ctypes.c_double


def array_address(array: npt.NDArray[Any], dtype: type[np.generic]) -> int:
    """The address of an array's numbers, which must be of this type and dense."""
    if array.dtype != dtype or not array.flags.c_contiguous:
        raise TypeError(f"a kernel takes a contiguous array of {np.dtype(dtype)}, not {array.dtype}")
    return array.ctypes.data


class ArrayArgument:
    """An argument type: a dense numpy array of one dtype."""

    def __init__(self, dtype: type[np.generic]) -> None:
        self.dtype = dtype

    def from_param(self, array: npt.NDArray[Any]) -> ctypes.c_void_p:
        if not isinstance(array, np.ndarray):
            raise TypeError(f"a kernel takes an array of {np.dtype(self.dtype)}, not {type(array).__name__}")
        return ctypes.c_void_p(array_address(array, self.dtype))


class MixtureSettings(ctypes.Structure):
    """`MixtureSettings` of engine_mixture.h."""

    _fields_ = (
        *(
            (name, INT)
            for name in (
                *("n_experts", "experts_per_token", "n_groups", "groups_per_token", "d_ff", "shared_d_ff"),
                *("activation", "softmax_gate", "normalise_gates", "corrected"),
            )
        ),
        ("scale", FLOAT),
    )


class ModelSettings(ctypes.Structure):
    """`ModelSettings` of engine_model.h."""

    _fields_ = (
        *(
            (name, INT)
            for name in (
                *("d_model", "n_heads", "head_size", "d_ff", "encoder_layers", "decoder_layers", "src_vocabulary"),
                *("tgt_vocabulary", "post", "centred", "activation", "linear_bias", "output_bias", "rotary"),
                "first_norm",
            )
        ),
        *((name, FLOAT) for name in ("eps", "embedding_scale", "score_scale", "output_scale")),
        ("mixture", MixtureSettings),
    )


class StoredTensor(ctypes.Structure):
    """`StoredTensor` of engine_model.h."""

    _fields_ = (
        *((name, ADDRESS) for name in ("data", "scales")),
        *((name, INT) for name in ("type", "rows", "columns")),
    )


class PositionTables(ctypes.Structure):
    """`PositionTables` of engine_state.h."""

    _fields_ = (*((name, ADDRESS) for name in ("rows", "bias")), *((name, INT) for name in ("length", "bias_stride")))


class SourceBatch(ctypes.Structure):
    """`SourceBatch` of engine_state.h."""

    _fields_ = (
        *((name, ADDRESS) for name in ("ids", "lengths")),
        *((name, INT) for name in ("sentences", "max_length")),
        *((name, PositionTables) for name in ("src_positions", "tgt_positions")),
        ("allowed", ADDRESS),
        ("n_allowed", INT),
    )


# Sentences, and the lengths and ids of their best tokens so far; not 0 cancels the search.
Observer = ctypes.CFUNCTYPE(INT32, INT, ctypes.POINTER(INT), ctypes.POINTER(INT))


class SearchCall(ctypes.Structure):
    """`SearchCall` of engine_search.h."""

    _fields_ = (
        *((name, INT) for name in ("rule", "beam", "n_best")),
        *((name, ADDRESS) for name in ("max_lengths", "divisors", "suppressed")),
        *((name, INT) for name in ("n_suppressed", "no_repeat_ngram")),
        *((name, ADDRESS) for name in ("prefixes", "prefix_starts")),
        *((name, DOUBLE) for name in ("temperature", "top_p")),
        ("top_k", INT),
        *((name, ADDRESS) for name in ("seeds", "cancelled")),
        ("observe", Observer),
        ("max_length", INT),
        *((name, ADDRESS) for name in ("ids", "log_probs", "totals", "lengths", "finished")),
    )


class ScoreCall(ctypes.Structure):
    """`ScoreCall` of engine_score.h."""

    _fields_ = (
        *((name, ADDRESS) for name in ("ids", "lengths")),
        ("bos", INT),
        *((name, ADDRESS) for name in ("log_probs", "head_weights", "attention")),
    )


class DrawCall(ctypes.Structure):
    """`DrawCall` of engine_sample.h."""

    _fields_ = (
        ("logits", ADDRESS),
        *((name, INT) for name in ("rows", "width", "size")),
        ("suppressed", ADDRESS),
        ("n_suppressed", INT),
        ("ids", ADDRESS),
        *((name, INT) for name in ("length", "no_repeat_ngram", "end")),
        *((name, DOUBLE) for name in ("temperature", "top_p")),
        ("top_k", INT),
        *((name, ADDRESS) for name in ("uniforms", "tokens", "log_probs")),
    )


class EngineObject(ctypes.Structure):
    """`Engine` of engine.cpp; opaque."""


class StateObject(ctypes.Structure):
    """`State` of engine_state.h; opaque."""


EngineHandle, StateHandle = ctypes.POINTER(EngineObject), ctypes.POINTER(StateObject)


@dataclass(frozen=True, eq=False)
class Library:
    """A source file and what it exports: `functions` by name without the prefix `regard_`."""

    source: Path
    functions: Mapping[str, tuple[Any, ...]]
    structures: tuple[type[ctypes.Structure], ...] = ()
    returning_nothing: frozenset[str] = frozenset()
    flags: tuple[str, ...] = ()  # additional ones for the compiler
    links_torch: bool = False


FOLDER = Path(__file__).parent

ENGINE = Library(
    FOLDER / "engine.cpp",
    {
        # number format, settings, weights, n_weights, engine
        "engine": (
            *(INT32, ctypes.POINTER(ModelSettings), ctypes.POINTER(StoredTensor), INT),
            ctypes.POINTER(EngineHandle),
        ),
        "engine_free": (EngineHandle,),
        "begin": (EngineHandle, ctypes.POINTER(SourceBatch), ctypes.POINTER(StateHandle)),
        "state_free": (StateHandle,),
        "step": (StateHandle, ArrayArgument(np.int64), INT, ArrayArgument(np.float32)),
        "reorder": (StateHandle, ArrayArgument(np.int64), INT),
        "encoded": (StateHandle, ArrayArgument(np.float32), INT),
        # engine, sources, call, bos, eos, outcome
        "search": (
            *(EngineHandle, ctypes.POINTER(SourceBatch), ctypes.POINTER(SearchCall), INT, INT),
            ctypes.POINTER(INT),
        ),
        # engine, sources, call, outcome
        "score": (EngineHandle, ctypes.POINTER(SourceBatch), ctypes.POINTER(ScoreCall), ctypes.POINTER(INT)),
        "draw": (ctypes.POINTER(DrawCall), ctypes.POINTER(INT)),
    },
    (
        *(MixtureSettings, ModelSettings, StoredTensor, PositionTables, SourceBatch, SearchCall, ScoreCall),
        DrawCall,
    ),
    frozenset({"engine_free", "state_free"}),
)
