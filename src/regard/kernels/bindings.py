"""The C interface of the kernels as Python sees it: structures, argument types and libraries, each listed once.

`loader.py` compiles and loads a library, compares its structures with those here, and binds every function to its
argument types, so that a call with a wrong type raises `ctypes.ArgumentError`. Every function returns a status, which
the loader turns into an exception; those that free return nothing.

| library  | kernels                                                         | fallback                            |
|----------|-----------------------------------------------------------------|-------------------------------------|
| TRAINING | loss, add & norm, ReLU, rotary positions, short attention, int8 | PyTorch, in the file that calls it  |
| ENGINE   | a Transformer and its beam search                               | the model itself and decode/beam.py |
| MEMORY   | a memory region for large tensors                               | glibc's mallopt (memory.py)         |
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

SUFFIXES = {torch.float32: "float32", torch.bfloat16: "bfloat16"}  # of the training kernels' names
INT, UINT, FLOAT, BOOL, INT32 = ctypes.c_int64, ctypes.c_uint64, ctypes.c_float, ctypes.c_bool, ctypes.c_int32
ADDRESS = ctypes.c_void_p


def address_of(tensor: Tensor, dtype: torch.dtype) -> int:
    """The address of a tensor's numbers, which must be of this type, dense and on the CPU."""
    if tensor.dtype != dtype or tensor.device.type != "cpu" or not tensor.is_contiguous():
        raise TypeError(
            f"a kernel takes a contiguous CPU tensor of {dtype}, "
            f"not {tensor.dtype} on {tensor.device} with strides {tensor.stride()}"
        )
    return tensor.data_ptr()


def array_address(array: npt.NDArray[Any], dtype: type[np.generic]) -> int:
    """The same of a numpy array."""
    if array.dtype != dtype or not array.flags.c_contiguous:
        raise TypeError(f"a kernel takes a contiguous array of {np.dtype(dtype)}, not {array.dtype}")
    return array.ctypes.data


class TensorArgument:
    """An argument type: a dense CPU tensor of one dtype; None is a null pointer where that is `optional`."""

    def __init__(self, dtype: torch.dtype, optional: bool = False) -> None:
        self.dtype, self.optional = dtype, optional

    def from_param(self, tensor: Tensor | None) -> ctypes.c_void_p:
        """Called by ctypes for every call."""
        if tensor is None and self.optional:
            return ctypes.c_void_p()
        if not isinstance(tensor, Tensor):
            raise TypeError(f"a kernel takes a tensor of {self.dtype}, not {type(tensor).__name__}")
        return ctypes.c_void_p(address_of(tensor, self.dtype))


class ArrayArgument:
    """An argument type: a dense numpy array of one dtype."""

    def __init__(self, dtype: type[np.generic]) -> None:
        self.dtype = dtype

    def from_param(self, array: npt.NDArray[Any]) -> ctypes.c_void_p:
        if not isinstance(array, np.ndarray):
            raise TypeError(f"a kernel takes an array of {np.dtype(self.dtype)}, not {type(array).__name__}")
        return ctypes.c_void_p(array_address(array, self.dtype))


class HeadRows(ctypes.Structure):
    """`HeadRows` of common.h: a tensor BHLK whose last dimension is dense."""

    _fields_ = (("data", ADDRESS), ("sentence_stride", INT), ("head_stride", INT), ("row_stride", INT))

    @classmethod
    def of(cls, x_BHLK: Tensor) -> HeadRows:
        if x_BHLK.stride(3) != 1:
            raise TypeError(f"a kernel takes heads whose last dimension is dense, not strides {x_BHLK.stride()}")
        return cls(x_BHLK.data_ptr(), *x_BHLK.stride()[:3])


class AttentionMask(ctypes.Structure):
    """`AttentionMask` of short_attention.h; without data every key is visible."""

    _fields_ = (("data", ADDRESS), ("sentence_stride", INT), ("query_stride", INT), ("key_stride", INT))

    @classmethod
    def of(cls, mask_B1LM: Tensor | None) -> AttentionMask:
        if mask_B1LM is None:
            return cls()
        if mask_B1LM.dtype != torch.bool:
            raise TypeError(f"a kernel takes a boolean mask, not {mask_B1LM.dtype}")
        sentence, _, query, key = mask_B1LM.stride()
        return cls(mask_B1LM.data_ptr(), sentence, query, key)


class AttentionCall(ctypes.Structure):
    """`AttentionCall` of short_attention.h."""

    _fields_ = (
        *((name, HeadRows) for name in ("q", "k", "v")),
        ("mask", AttentionMask),
        *((name, INT) for name in ("sentences", "heads", "queries", "keys", "size")),
        ("scale", FLOAT),
        ("dropout_threshold", INT32),
        ("seed", UINT),
    )


class RotationCall(ctypes.Structure):
    """`RotationCall` of rotation.h."""

    _fields_ = (
        ("x", HeadRows),
        *((name, INT) for name in ("sentences", "heads", "rows", "size")),
        *((name, ADDRESS) for name in ("cos", "sin")),
    )


class PackedMatrix(ctypes.Structure):
    """`PackedMatrix` of gemm_pack.h."""

    _fields_ = (
        *((name, ADDRESS) for name in ("words", "scale", "total")),
        *((name, INT) for name in ("lines", "length")),
    )


class ModelSizes(ctypes.Structure):
    """`ModelSizes` of engine_model.h."""

    _fields_ = tuple(
        (name, INT)
        for name in (
            *("d_model", "n_heads", "d_ff", "encoder_layers", "decoder_layers", "src_vocabulary", "tgt_vocabulary"),
            *("post", "centred", "activation", "output_bias", "rotary"),
        )
    )


class SourceBatch(ctypes.Structure):
    """`SourceBatch` of engine_state.h."""

    _fields_ = (
        *((name, ADDRESS) for name in ("ids", "lengths")),
        *((name, INT) for name in ("sentences", "max_length")),
        *((name, ADDRESS) for name in ("src_positions", "tgt_positions", "allowed")),
        ("n_allowed", INT),
    )


class BeamCall(ctypes.Structure):
    """`BeamCall` of engine_beam.h."""

    _fields_ = (
        *((name, INT) for name in ("beam", "n_best")),
        *((name, ADDRESS) for name in ("max_lengths", "divisors")),
        ("max_length", INT),
        *((name, ADDRESS) for name in ("ids", "log_probs", "totals", "lengths", "finished")),
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
    flags: tuple[str, ...] = field(default=())  # additional ones for the compiler


def training_functions(dtype: torch.dtype) -> dict[str, tuple[Any, ...]]:
    """The kernels of training.cpp for numbers of one type."""
    same, float32 = TensorArgument(dtype), TensorArgument(torch.float32)
    int32, int64 = TensorArgument(torch.int32), TensorArgument(torch.int64)
    maybe_float32 = TensorArgument(torch.float32, optional=True)
    attention, rotation, packed = (ctypes.POINTER(kind) for kind in (AttentionCall, RotationCall, PackedMatrix))
    functions: dict[str, tuple[Any, ...]] = {
        # logits, targets, right, logp_right, log_sum, rows, size
        "loss": (same, int64, FLOAT, float32, float32, INT, INT),
        # logits, targets, right, strength, logp_right, log_sum, divergence, pairs, size
        "paired_loss": (same, int64, FLOAT, FLOAT, float32, float32, float32, INT, INT),
        # x, change, gain, bias, eps, threshold, seed, resid, normed, means, rates, rows, size
        "add_norm": (
            *(same, same, float32, float32, FLOAT, INT32, UINT),
            *(same, same, float32, float32, INT, INT),
        ),
        # grad, resid, gain, means, rates, threshold, seed, grad_x, grad_change, grad_gain, grad_bias, rows, size
        "add_norm_backward": (
            *(same, same, float32, float32, float32, INT32, UINT),
            *(same, same, float32, float32, INT, INT),
        ),
        "relu_dropout": (same, same, INT32, UINT, INT, INT),  # x, out, threshold, seed, rows, size
        "relu_dropout_backward": (same, same, FLOAT, same, INT),  # grad, out, scale, grad_x, count
        "attention": (attention, same, same),  # call, weights, out
        # call, weights, grad_out, grad_q, grad_k, grad_v
        "attention_backward": (attention, same, same, same, same, same),
        "rotate": (rotation, same),  # call, out
        "pack_rows": (same, BOOL, UINT, packed, int32, maybe_float32),  # matrix, left, seed, to, column maxima, sums
        "pack_columns": (same, BOOL, UINT, packed, int32),  # matrix, left, seed, to, column maxima
        "multiply_packed": (packed, packed, maybe_float32, BOOL, same),  # left, right, bias, add, out
    }
    return {f"{name}_{SUFFIXES[dtype]}": types for name, types in functions.items()}


def torch_flags() -> tuple[str, ...]:
    """How a compiler finds torch's allocators."""
    folder = Path(torch.__file__).parent
    return "-std=c++20", f"-I{folder / 'include'}", f"-L{folder / 'lib'}", "-lc10"


FOLDER = Path(__file__).parent

TRAINING = Library(
    FOLDER / "training.cpp",
    {name: types for dtype in SUFFIXES for name, types in training_functions(dtype).items()},
    (HeadRows, AttentionMask, AttentionCall, RotationCall, PackedMatrix),
)

ENGINE = Library(
    FOLDER / "engine.cpp",
    {
        # number format, sizes, eps, scale, weights, n_weights, suppressed, n_suppressed, engine
        "engine": (
            *(INT32, ctypes.POINTER(ModelSizes), FLOAT, FLOAT, ArrayArgument(np.uint64), INT),
            *(ArrayArgument(np.int64), INT, ctypes.POINTER(EngineHandle)),
        ),
        "engine_free": (EngineHandle,),
        "begin": (EngineHandle, ctypes.POINTER(SourceBatch), ctypes.POINTER(StateHandle)),
        "state_free": (StateHandle,),
        "step": (StateHandle, TensorArgument(torch.int64), INT, TensorArgument(torch.float32)),
        "reorder": (StateHandle, TensorArgument(torch.int64), INT),
        # engine, sources, call, bos, eos, not_finite
        "search": (
            *(EngineHandle, ctypes.POINTER(SourceBatch), ctypes.POINTER(BeamCall), INT, INT),
            ctypes.POINTER(INT),
        ),
    },
    (ModelSizes, SourceBatch, BeamCall),
    frozenset({"engine_free", "state_free"}),
)

MEMORY = Library(
    FOLDER / "memory.cpp", {"reserve_region": (ctypes.c_size_t,), "use_region": (BOOL,)}, flags=torch_flags()
)
