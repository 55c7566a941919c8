"""`regard doctor`: what the machine has."""

from __future__ import annotations

import json
import platform
from typing import Any

import pytest
import torch

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
