"""What speed to expect: from a machine's rates alone, so the figures can be worked out by hand."""

from __future__ import annotations

import dataclasses

import pytest

from regard.cli.speed_estimate import Machine, config_of, estimate_speeds, search_operations, training_operations

# The machine of docs/LOG.md: two cores with AVX512-BF16 and VNNI.
LOGGED = Machine(
    gpu=False,
    gflops={"float32": 196.0, "bfloat16": 430.0},
    precision="bfloat16",
    units="AVX512-BF16",
    threads=2,
    kernels=True,
    vnni=True,
)


def speeds(machine: Machine) -> dict[str, int]:
    return {one.work: one.tokens_per_second for one in estimate_speeds(machine)}


def test_the_logged_machine_is_expected_to_do_what_it_did() -> None:
    found = speeds(LOGGED)
    assert found["training base"] == pytest.approx(952, rel=0.1)
    assert found["training small"] == pytest.approx(4574, rel=0.1)


def test_in_int8_too() -> None:
    rates = {**LOGGED.gflops, "int8": 870.0}
    found = estimate_speeds(dataclasses.replace(LOGGED, gflops=rates, precision="int8"))
    assert found[1].tokens_per_second == pytest.approx(1770, rel=0.1)
    assert found[0].tokens_per_second == pytest.approx(8400, rel=0.1)
    assert "in int8, on VNNI units" in found[0].why


def test_every_figure_has_a_reason() -> None:
    found = {one.work: one.why for one in estimate_speeds(LOGGED)}
    assert "bfloat16" in found["training base"]
    assert "AVX512-BF16" in found["training base"]
    assert "float32" in found["translating base"]
    assert "VNNI units of 2 cores" in found["translating base, --precision auto"]


def test_faster_products_leave_the_rest_of_a_step() -> None:
    """With AMX a step gains less than its products do."""
    amx = dataclasses.replace(LOGGED, units="AMX", gflops={"float32": 196.0, "bfloat16": 2000.0})
    gain = speeds(amx)["training base"] / speeds(LOGGED)["training base"]
    assert 1.5 < gain < 2000 / 430


def test_a_plain_cpu() -> None:
    plain = dataclasses.replace(LOGGED, precision="float32", units="", kernels=False, vnni=False)
    assert set(speeds(plain)) == {
        f"{work} {size}" for work in ("training", "translating") for size in ("small", "base")
    }
    assert speeds(plain)["training base"] < speeds(LOGGED)["training base"]
    assert speeds(plain)["translating base"] < speeds(LOGGED)["translating base"]
    assert all("float32" in one.why for one in estimate_speeds(plain))
    assert "C++ engine" in estimate_speeds(plain)[-1].why


def test_of_a_gpu_only_the_most_is_said() -> None:
    gpu = dataclasses.replace(LOGGED, gpu=True, gflops={"float32": 10_000.0, "bfloat16": 100_000.0})
    assert all(one.why.startswith("upper bound") for one in estimate_speeds(gpu))
    assert speeds(gpu)["training base"] == pytest.approx(100e12 / training_operations(config_of("base")), rel=0.05)


def test_operations_of_a_search() -> None:
    """base: 6 layers of 3.1 million decoder weights for each of 4 hypotheses, the output, and the source once."""
    d, layers, vocabulary = 512, 6, 10_000
    decoder = layers * (6 * d * d + 8 * d * d) + d * vocabulary
    encoder = layers * (4 * d * d + 8 * d * d) + layers * 2 * d * d
    assert search_operations(config_of("base")) == 2 * (4 * decoder + encoder)
