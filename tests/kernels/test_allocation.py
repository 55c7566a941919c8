"""Allocation failures and wrong indices in C++ become Python exceptions, and the process goes on."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest
import torch

from regard.core.int8 import Packed
from regard.kernels.loader import NativeLibrary, library
from regard.kernels.training import TRAINING, AttentionCall, AttentionMask, HeadRows, PackedMatrix, kernel

ABSURD = 2**50  # numbers; more than any machine can address


@pytest.fixture(autouse=True, name="native")
def _native() -> NativeLibrary:
    native = library(TRAINING)
    assert native is not None, "this test needs a C++ compiler"
    return native


def absurd_attention(name: str) -> None:
    x = torch.ones(1, 1, 1, 16)
    heads = HeadRows.of(x)
    call = AttentionCall(heads, heads, heads, AttentionMask(), 1, 1, ABSURD, 1, 16, 1.0, 0, 0)
    tensors = [x] * (2 if name == "attention" else 5)
    kernel(name, torch.float32)(ctypes.byref(call), *tensors)


def absurd_rows(name: str) -> None:
    x, ids, ints = torch.ones(16), torch.zeros(2, dtype=torch.int64), torch.zeros(16, dtype=torch.int32)
    packed = PackedMatrix(*(tensor.data_ptr() for tensor in (ints, x, ints)), 1, ABSURD)
    arguments = {
        "loss": (x, ids, 1.0, x, x, 1, ABSURD),
        "paired_loss": (x, ids, 1.0, 0.5, x, x, x, 1, ABSURD),
        "add_norm": (x, x, x, x, 1e-5, 26, 1, x, x, x, x, 1, ABSURD),
        "add_norm_backward": (x, x, x, x, x, 26, 1, x, x, x, x, 1, ABSURD),
        "relu_dropout": (x, x, 26, 1, 1, ABSURD),
        "pack_rows": (x, True, 0, ctypes.byref(packed), ints, None),
    }
    kernel(name, torch.float32)(*arguments[name])


@pytest.mark.parametrize("name", ["attention", "attention_backward"])
def test_attention_that_fits_into_no_memory(name: str) -> None:
    with pytest.raises(MemoryError, match=f"could not allocate its working memory .in regard_{name}_float32"):
        absurd_attention(name)


@pytest.mark.parametrize("name", ["loss", "paired_loss", "add_norm", "add_norm_backward", "relu_dropout", "pack_rows"])
def test_rows_that_fit_into_no_memory(name: str) -> None:
    with pytest.raises(MemoryError, match="could not allocate"):
        absurd_rows(name)


def test_packing_columns_that_fit_into_no_memory() -> None:
    x, ints = torch.ones(16), torch.zeros(16, dtype=torch.int32)
    packed = PackedMatrix(*(tensor.data_ptr() for tensor in (ints, x, ints)), ABSURD, 1)
    with pytest.raises(MemoryError, match="could not allocate"):
        kernel("pack_columns", torch.float32)(x, True, 0, ctypes.byref(packed), ints)


OUT_OF_MEMORY = """
import resource, torch
from pathlib import Path
from regard.kernels.loader import library
from regard.kernels.training import TRAINING
native = library(TRAINING)
logits, targets, row = torch.zeros(1, 30_000_000), torch.zeros(1, dtype=torch.int64), torch.zeros(1)
call = lambda: native["loss_float32"](logits, targets, 1.0, row, row, 1, logits.shape[1])
used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
limits = resource.getrlimit(resource.RLIMIT_AS)
resource.setrlimit(resource.RLIMIT_AS, (used + (50 << 20), limits[1]))  # a row of weights takes 120 MB
try:
    call()
except MemoryError as error:
    print(error)
resource.setrlimit(resource.RLIMIT_AS, limits)
call()
print("recovered")
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits and /proc of Linux")
def test_a_limit_on_memory_raises_and_the_process_goes_on() -> None:
    said = subprocess.run([sys.executable, "-c", OUT_OF_MEMORY], capture_output=True, text=True)
    expected = "a kernel could not allocate its working memory (in regard_loss_float32)\nrecovered\n"
    assert (said.stdout, said.returncode) == (expected, 0), said.stderr


@pytest.mark.parametrize("target", [-1, 5, 2**40])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_target_outside_the_vocabulary_is_refused(native: NativeLibrary, target: int, dtype: str) -> None:
    logits, targets = torch.zeros(4, 5).to(getattr(torch, dtype)), torch.tensor([0, 1, target, 2])
    rows = torch.zeros(4)
    message = f"target token {target} at position 2 is out of range: it must be from 0 to 4"
    with pytest.raises(IndexError, match=message):
        native[f"loss_{dtype}"](logits, targets, 1.0, rows, rows, 4, 5)
    with pytest.raises(IndexError, match=message):
        native[f"paired_loss_{dtype}"](logits, targets, 1.0, 0.5, rows, rows, rows, 2, 5)
    assert not logits.any()


@pytest.mark.parametrize("threshold", [-1, 256])
def test_a_dropout_threshold_that_is_no_byte_is_refused(native: NativeLibrary, threshold: int) -> None:
    x = torch.ones(2, 16)
    with pytest.raises(ValueError, match="from 0 to 255"):
        native["relu_dropout_float32"](x, x, threshold, 1, 2, 16)


def test_a_packed_matrix_checks_its_tensors() -> None:
    good = Packed.empty(4, 8)
    with pytest.raises(TypeError, match=r"of torch\.float32, not torch\.float64"):
        Packed(good.words, good.scales.double(), good.totals, 4, 8).call()
