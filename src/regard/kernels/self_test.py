"""One small computation with each library beside PyTorch, for trial.py."""

from __future__ import annotations

import ctypes

import numpy as np
import torch
from torch import Tensor

from regard.kernels.bindings import (
    ENGINE,
    MEMORY,
    TRAINING,
    EngineHandle,
    ModelSizes,
    PackedMatrix,
    SourceBatch,
    StateHandle,
    address_of,
    array_address,
)
from regard.kernels.native_library import NativeLibrary, NoKernelsError

D_MODEL, D_FF, VOCABULARY, EPS = 8, 16, 12, 1e-5
NUMBER_FORMATS = 3  # of the engine: float32, bf16, int8


def self_test(compiled: ctypes.CDLL, source: str) -> None:
    """`source` is the name of the library's source file."""
    torch.manual_seed(1)
    wanted, run = {
        TRAINING.source.name: (TRAINING, try_training),
        ENGINE.source.name: (ENGINE, try_engine),
        MEMORY.source.name: (MEMORY, try_memory),
    }[source]
    run(NativeLibrary(compiled, wanted))


def compare(name: str, found: Tensor, expected: Tensor, tolerance: float) -> None:
    difference, largest = float((found - expected).abs().max()), float(expected.abs().max())
    if not difference <= tolerance * largest:  # also NaN
        raise NoKernelsError(f"{name} differs by {difference:g} from what PyTorch computes, of at most {largest:g}")


def try_training(native: NativeLibrary) -> None:
    """A product in int8."""
    left_NI, right_OI = torch.randn(20, 40), torch.randn(20, 40)
    out_NO = torch.empty(20, 20)
    packed = []
    for matrix, left in ((left_NI, True), (right_OI, False)):
        words, scales, totals = torch.empty(32 * 10, dtype=torch.int32), torch.empty(32), torch.empty(32).int()
        addresses = (address_of(words, torch.int32), scales.data_ptr(), address_of(totals, torch.int32))
        packed.append((PackedMatrix(*addresses, 20, 40), words, scales, totals))
        columns = torch.empty(40, dtype=torch.int32)
        native["pack_rows_float32"](matrix, left, 0, ctypes.byref(packed[-1][0]), columns, None)
    native["multiply_packed_float32"](ctypes.byref(packed[0][0]), ctypes.byref(packed[1][0]), None, False, out_NO)
    compare("an int8 product", out_NO, left_NI @ right_OI.T, 0.05)


def try_engine(native: NativeLibrary) -> None:
    """The logits of one step in every number format; the layers' matrices are zero, so that only their norms act."""
    ones, zeros = torch.ones(D_MODEL), torch.zeros(3 * D_MODEL * D_FF)
    attention, ffn = [zeros, zeros, zeros, zeros, ones, zeros], [zeros, zeros, zeros, zeros, ones, zeros]
    table_VD, output_VD = torch.randn(VOCABULARY, D_MODEL), torch.randn(VOCABULARY, D_MODEL)
    weights = [table_VD, table_VD, *attention, *ffn, *attention, *attention, *ffn, output_VD]
    addresses = np.array([tensor.data_ptr() for tensor in weights], np.uint64)
    sizes = ModelSizes(D_MODEL, 2, D_FF, 1, 1, VOCABULARY, VOCABULARY, True, True, 0, False, False)
    ids, lengths, suppressed = np.array([3, 4], np.int64), np.array([2], np.int64), np.array([0], np.int64)
    batch = SourceBatch(array_address(ids, np.int64), array_address(lengths, np.int64), 1, 2, None, None, None, 0)
    expected_1V = torch.nn.functional.layer_norm(table_VD[5:6], (D_MODEL,), eps=EPS) @ output_VD.T
    for number_format in range(NUMBER_FORMATS):
        engine, state, found_1V = EngineHandle(), StateHandle(), torch.empty(1, VOCABULARY)
        native["engine"](number_format, sizes, EPS, 1.0, addresses, len(addresses), suppressed, 1, engine)
        native["begin"](engine, batch, state)
        native["step"](state, torch.tensor([5]), 1, found_1V)
        compare(f"the engine's number format {number_format}", found_1V, expected_1V, 0.05 if number_format else 1e-4)
        native["state_free"](state)
        native["engine_free"](engine)


def try_memory(native: NativeLibrary) -> None:
    """A tensor in the region."""
    native["reserve_region"](16 << 20)
    native["use_region"](True)
    compare("a sum in the region", torch.arange(100_000).sum(), torch.tensor(99_999 * 50_000), 0.0)
    native["use_region"](False)
