"""Selection of the compute precision."""

from __future__ import annotations

import pytest
import torch

from regard.core.precision import choose_dtype, cpu_has_vnni, cpu_matrix_units, takes_int8

CPU = torch.device("cpu")


def test_an_explicit_precision_is_used() -> None:
    assert choose_dtype("float32", CPU) == torch.float32
    assert choose_dtype("bfloat16", CPU) == torch.bfloat16


def test_auto_follows_the_cpu() -> None:
    units = cpu_matrix_units()
    assert units in ("AMX", "AVX512-BF16", "")
    assert choose_dtype("auto", CPU) == (torch.bfloat16 if units else torch.float32)


def test_auto_elsewhere_is_float32() -> None:
    assert choose_dtype("auto", torch.device("meta")) == torch.float32


def test_units_excluded_by_onednn_max_cpu_isa_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA", raising=False)
    best = cpu_matrix_units()
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "DEFAULT")
    assert cpu_matrix_units() == best
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "avx512_core_bf16")
    assert cpu_matrix_units() == ("AVX512-BF16" if best else "")
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2")
    assert cpu_matrix_units() == ""
    assert not cpu_has_vnni()
    assert choose_dtype("auto", CPU) == torch.float32
    assert not takes_int8("auto", CPU)


def test_auto_selects_int8_with_vnni_and_without_amx(monkeypatch: pytest.MonkeyPatch) -> None:
    assert takes_int8("int8", CPU)
    assert not takes_int8("bfloat16", CPU)
    assert not takes_int8("float32", CPU)
    assert not takes_int8("auto", torch.device("meta"))
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA", raising=False)
    for vnni, amx in ((True, True), (True, False), (False, True), (False, False)):
        monkeypatch.setattr(torch.cpu, "_is_vnni_supported", lambda has=vnni: has)
        monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda has=amx: has)
        assert takes_int8("auto", CPU) == (vnni and not amx)
    monkeypatch.undo()
    monkeypatch.setenv("REGARD_NATIVE", "0")
    assert not takes_int8("auto", CPU)


def test_with_int8_the_dtype_between_products_is_that_of_auto() -> None:
    assert choose_dtype("int8", CPU) == choose_dtype("auto", CPU)


def test_an_unknown_precision_is_refused() -> None:
    with pytest.raises(AssertionError, match="'float8'"):
        choose_dtype("float8", CPU)  # type: ignore[arg-type]
