"""One small computation with a new library beside numpy or PyTorch, for trial.py."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from regard.kernels.bindings import (
    ENGINE,
    EngineHandle,
    Library,
    MixtureSettings,
    ModelSettings,
    PositionTables,
    SourceBatch,
    StateHandle,
    StoredTensor,
    array_address,
)
from regard.kernels.native_library import NativeLibrary, NoKernelsError

D_MODEL, D_FF, VOCABULARY, EPS = 8, 16, 12, 1e-5
NUMBER_FORMATS = 3  # of the engine: float32, bf16, int8
# Of a sublayer: the shapes of its weights and their values, two matrices with biases and a norm.
NORM = (((1, D_MODEL), 1.0), ((1, D_MODEL), 0.0))
ATTENTION = (
    *((shape, 0.0) for shape in ((3 * D_MODEL, D_MODEL), (1, 3 * D_MODEL), (D_MODEL, D_MODEL), (1, D_MODEL))),
    *NORM,
)
FEED_FORWARD = (*((shape, 0.0) for shape in ((D_FF, D_MODEL), (1, D_FF), (D_MODEL, D_FF), (1, D_MODEL))), *NORM)
NONE = PositionTables(None, None, 0, 0)

Array = npt.NDArray[Any]


def self_test(compiled: ctypes.CDLL, source: str) -> None:
    """`source` is the name of the library's source file."""
    wanted, run = test_of(source)
    run(NativeLibrary(compiled, wanted))


def test_of(source: str) -> tuple[Library, Callable[[NativeLibrary], None]]:
    if source == ENGINE.source.name:
        return ENGINE, try_engine
    from regard.kernels.training import MEMORY, TRAINING

    return {TRAINING.source.name: (TRAINING, try_training), MEMORY.source.name: (MEMORY, try_memory)}[source]


def compare(name: str, found: Array, expected: Array, tolerance: float) -> None:
    difference, largest = float(np.abs(found - expected).max()), float(np.abs(expected).max())
    if not difference <= tolerance * largest:  # also NaN
        raise NoKernelsError(f"{name} differs by {difference:g} from the expected result, of at most {largest:g}")


def try_engine(native: NativeLibrary) -> None:
    """The logits of one step in every number format; the layers' matrices are zero, so that only their norms act."""
    random = np.random.default_rng(1)
    table_VD, output_VD = random.standard_normal((2, VOCABULARY, D_MODEL), np.float32)
    settings = ModelSettings(
        *(D_MODEL, 2, D_MODEL // 2, D_FF, 1, 1, VOCABULARY, VOCABULARY, True, True, 0, True),
        *(False, False, False, EPS, 1.0, 0.5, 1.0, MixtureSettings()),
    )
    layers = [*ATTENTION, *FEED_FORWARD, *ATTENTION, *ATTENTION, *FEED_FORWARD]
    arrays = [table_VD, table_VD, *(np.full(shape, value, np.float32) for shape, value in layers), output_VD]
    listed = [StoredTensor(array_address(array, np.float32), None, 0, *array.shape) for array in arrays]
    weights = (StoredTensor * len(listed))(*listed)
    ids, lengths = np.array([3, 4], np.int64), np.array([2], np.int64)
    batch = SourceBatch(array_address(ids, np.int64), array_address(lengths, np.int64), 1, 2, NONE, NONE, None, 0)
    x_1D = table_VD[5:6]
    normed_1D = (x_1D - x_1D.mean()) / np.sqrt(x_1D.var() + EPS)
    expected_1V = normed_1D @ output_VD.T
    for number_format in range(NUMBER_FORMATS):
        engine, state, found_1V = EngineHandle(), StateHandle(), np.empty((1, VOCABULARY), np.float32)
        native["engine"](number_format, settings, weights, len(listed), engine)
        native["begin"](engine, batch, state)
        native["step"](state, np.array([5]), 1, found_1V)
        compare(f"the engine's number format {number_format}", found_1V, expected_1V, 0.05 if number_format else 1e-4)
        native["state_free"](state)
        native["engine_free"](engine)


def try_training(native: NativeLibrary) -> None:
    """A product in int8."""
    import torch

    from regard.kernels.training import PackedMatrix, address_of

    torch.manual_seed(1)
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
    compare("an int8 product", out_NO.numpy(), (left_NI @ right_OI.T).numpy(), 0.05)


def try_memory(native: NativeLibrary) -> None:
    """A tensor in the region."""
    import torch

    native["reserve_region"](16 << 20)
    native["use_region"](True)
    compare("a sum in the region", torch.arange(100_000).sum().numpy(), np.array(99_999 * 50_000), 0.0)
    native["use_region"](False)
