"""Which number format a run computes in."""

from __future__ import annotations

import torch

from regard.core.precision import choose_dtype, cpu_matrix_units

CPU = torch.device("cpu")


def test_what_is_asked_for_is_taken() -> None:
    assert choose_dtype("float32", CPU) == torch.float32
    assert choose_dtype("bfloat16", CPU) == torch.bfloat16


def test_auto_follows_the_cpu() -> None:
    units = cpu_matrix_units()
    assert units in ("AMX", "AVX512-BF16", "")
    assert choose_dtype("auto", CPU) == (torch.bfloat16 if units else torch.float32)


def test_auto_elsewhere_is_float32() -> None:
    assert choose_dtype("auto", torch.device("meta")) == torch.float32
