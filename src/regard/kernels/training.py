"""The kernels that take torch tensors: those of training, and the memory region for its tensors."""

from __future__ import annotations

import ctypes
from typing import Any

import torch
from torch import Tensor

from regard.kernels.bindings import ADDRESS, BOOL, FLOAT, FOLDER, INT, INT32, UINT, Library
from regard.kernels.loader import library

SUFFIXES = {torch.float32: "float32", torch.bfloat16: "bfloat16"}  # of the kernels' names


def address_of(tensor: Tensor, dtype: torch.dtype) -> int:
    """The address of a tensor's numbers, which must be of this type, dense and on the CPU."""
    if tensor.dtype != dtype or tensor.device.type != "cpu" or not tensor.is_contiguous():
        raise TypeError(
            f"a kernel takes a contiguous CPU tensor of {dtype}, "
            f"not {tensor.dtype} on {tensor.device} with strides {tensor.stride()}"
        )
    return tensor.data_ptr()


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


TRAINING = Library(
    FOLDER / "training.cpp",
    {name: types for dtype in SUFFIXES for name, types in training_functions(dtype).items()},
    (HeadRows, AttentionMask, AttentionCall, RotationCall, PackedMatrix),
    flags=("-fopenmp",),
)

MEMORY = Library(FOLDER / "memory.cpp", {"reserve_region": (ctypes.c_size_t,), "use_region": (BOOL,)}, links_torch=True)


def kernel(name: str, dtype: torch.dtype) -> Any:
    """A function of training.cpp for numbers of this type. The caller has checked that there are kernels."""
    native = library(TRAINING)
    assert native is not None
    return native[f"{name}_{SUFFIXES[dtype]}"]


def random_seed() -> int:
    """A seed for a kernel's random numbers, from torch's own generator: the same torch seed gives the same masks."""
    return int(torch.randint(2**62, ()))
