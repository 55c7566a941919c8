"""`regard doctor`: what the machine has."""

from __future__ import annotations

import json
import platform
from typing import Any

import pytest
import torch

from regard.cli import doctor
from regard.core.precision import choose_dtype, takes_int8


def test_json(regard: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_DATA", "/some/where")
    monkeypatch.setenv("REGARD_MODLE", "mistyped")
    monkeypatch.delenv("REGARD_MODEL", raising=False)
    said = regard("doctor", "--json")
    assert (said.code, said.err) == (0, "")
    found = json.loads(said.out)
    assert found["python"] == platform.python_version()
    assert found["torch"] == torch.__version__
    assert found["threads"] == torch.get_num_threads()
    assert found["cores"] >= 1
    assert found["disk_free_bytes"] > 0
    device = torch.device(found["device"])
    in_int8 = takes_int8("auto", device)
    chosen = "int8" if in_int8 else str(choose_dtype("auto", device)).removeprefix("torch.")
    assert found["precision"] == chosen
    assert set(found["gflops"]) == {"float32", "bfloat16", *(["int8"] if in_int8 else [])}
    assert all(speed > 0 for speed in found["gflops"].values())
    assert found["variables"].items() >= {"REGARD_DATA": "/some/where", "REGARD_MODLE": "mistyped"}.items()
    assert found["variables"]["REGARD_MODEL"] is None
    assert set(found["extras"]) == {"matplotlib", "zstandard"}
    expected = {one["work"]: one["tokens_per_second"] for one in found["expect"]}
    assert expected["training small"] > expected["training base"] > 0
    assert all(one["why"] and one["tokens_per_second"] > 0 for one in found["expect"])


def test_readable(regard: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REGARD_MODEL", raising=False)
    said = regard("doctor")
    assert said.code == 0
    lines = said.out.splitlines()
    for name in ("cores", "memory", "torch", "precision", "matrix products", "C++ kernels", "REGARD_CACHE"):
        assert sum(line.startswith(name + " ") for line in lines) == 1
    assert ", because the " in said.out
    assert "REGARD_MODEL     not set" in lines
    assert "estimated from" in said.out
    assert "bench/train.py" in said.out
    for work in ("training small", "training base"):
        assert sum(line.startswith(work + " ") for line in lines) == 1


def test_the_speed_without_torch() -> None:
    found = doctor.computing_without_torch()
    assert (found["torch"], found["device"], found["precision"]) == (None, "cpu", None)
    assert found["threads"] == doctor.usable_cores()
    assert found["native_kernels"] == (found["no_kernels_reason"] is None)
    assert found["gflops"]["float32"] > 0
    assert all(one["why"] and one["tokens_per_second"] > 0 for one in found["expect"])
    assert not any("training" in one["work"] for one in found["expect"])
    shown = doctor.readable({**doctor.machine(), **found, **doctor.engine(), "variables": {}, "extras": {}})
    assert 'pip install "regard[torch]"' in shown
    assert "those of training need torch" in shown


@pytest.mark.parametrize(
    ("device", "units", "precision", "expected"),
    [
        ("cuda", "", "bfloat16", "the GPU has bf16 matrix units"),
        ("cuda", "", "float32", "the GPU has no bf16 matrix units"),
        ("cpu", "", "int8", "the CPU has VNNI, and no AMX"),
        ("cpu", "AMX", "bfloat16", "the CPU has AMX"),
        ("cpu", "", "float32", "the CPU has neither AMX nor AVX512-BF16"),
    ],
)
def test_why_a_precision_is_chosen(device: str, units: str, precision: str, expected: str) -> None:
    assert doctor.reason(device, units, precision) == expected


def test_where_the_engine_comes_from() -> None:
    has = {"instruction_sets": ["avx512", "avx2"]}
    assert doctor.engine_line({"engine": "avx512 1234", **has}) == (
        "from the package (avx512; this CPU has avx512, avx2)"
    )
    assert doctor.engine_line({"engine": "1234", **has}) == "compiled on this machine"
    missing = {"engine": None, "no_engine_reason": "no compiler", "instruction_sets": []}
    assert doctor.engine_line(missing) == (
        "missing: no compiler. Translation runs in numpy, several times slower "
        "(this CPU has no instruction set of a wheel)"
    )


def test_whether_the_kernels_are_in_use() -> None:
    found = {"torch": "2", "native_kernels": True, "kernels_not_stored_reason": None, "no_kernels_reason": None}
    assert doctor.kernels_line(found) == "in use"
    stored = {**found, "kernels_not_stored_reason": "/cache is read-only"}
    assert doctor.kernels_line(stored) == "in use, but compiled again by every process: /cache is read-only"
    refused = {**found, "native_kernels": False, "no_kernels_reason": "switched off"}
    assert doctor.kernels_line(refused) == "not in use: switched off"


def test_without_the_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_NATIVE", "0")
    monkeypatch.setattr(doctor, "PROBE_SECONDS", 0.01)
    reason = "the environment variable REGARD_NATIVE is 0"
    engine = doctor.engine()
    assert (engine["engine"], engine["no_engine_reason"]) == (None, reason)
    for found in (doctor.computing(), doctor.computing_without_torch()):
        assert (found["native_kernels"], found["no_kernels_reason"]) == (False, reason)
        assert found["kernels_not_stored_reason"] is None
        translations = [one["work"] for one in found["expect"] if "training" not in one["work"]]
        assert translations


def test_packages_that_are_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "OPTIONAL", ("torch", "package_of_nobody"))
    assert doctor.extras() == {"torch": torch.__version__, "package_of_nobody": None}
