"""Estimates of training and translation speed from the rate of a machine's matrix products.

The time of a training step is that of its matrix products (as bench/train.py counts them) at the rate of the precision,
plus an overhead, given in float32 operations per token. The time of a translation with beam 4 is that of its products
at a fraction of the float32 rate. Overheads and fractions were measured on two cores with AVX512-BF16 and VNNI
(docs/LOG.md); other CPUs differ somewhat, and for GPUs they are unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from regard.config import PRESETS, TransformerConfig

Size = Literal["small", "base"]
SIZES: tuple[Size, ...] = ("small", "base")
Searcher = Literal["float32", "int8", "numpy"]  # the engine in a number format, or without it
VOCABULARY, LENGTH, BEAM = 10_000, 17, 4  # as in bench/
OVERHEAD: dict[Size, float] = {"small": 20e6, "base": 70e6}  # float32 operations per target token
OVERHEAD_INT8: dict[Size, float] = {"small": 13e6, "base": 44e6}
RATE_FACTORS: dict[Searcher, dict[Size, float]] = {  # multiples of the float32 rate
    "float32": {"small": 0.8, "base": 1.0},
    "int8": {"small": 2.0, "base": 3.0},
    "numpy": {"small": 0.1, "base": 0.2},
}


@dataclass(frozen=True)
class SpeedEstimate:
    work: str
    tokens_per_second: int  # target tokens, rounded to two digits
    why: str


@dataclass(frozen=True)
class Machine:
    """The properties of a machine that the estimates depend on."""

    gpu: bool
    gflops: Mapping[str, float]  # by precision
    precision: str | None  # for training; None: without torch
    units: str  # bf16 matrix units, or ''
    threads: int
    kernels: bool  # whether the C++ kernels are available
    vnni: bool


def estimate_speeds(machine: Machine) -> list[SpeedEstimate]:
    trained = [] if machine.precision is None else [estimate_training(size, machine) for size in SIZES]
    if machine.gpu:
        return trained
    searchers: tuple[Searcher, ...] = ("numpy",)
    if machine.kernels:
        searchers = ("float32", "int8") if machine.vnni else ("float32",)
    return trained + [estimate_translation(size, searcher, machine) for searcher in searchers for size in SIZES]


def estimate_training(size: Size, machine: Machine) -> SpeedEstimate:
    assert machine.precision is not None
    rate, operations = machine.gflops[machine.precision] * 1e9, training_operations(config_of(size))
    products = operations / rate
    if machine.gpu:
        why = f"upper bound: matrix products alone at {rate / 1e9:,.0f} GFLOP/s in {machine.precision}"
        return SpeedEstimate(f"training {size}", rounded(1 / products), why)
    overhead = (OVERHEAD_INT8 if machine.precision == "int8" else OVERHEAD)[size]
    seconds = products + overhead / (machine.gflops["float32"] * 1e9)
    where = {
        "int8": "VNNI units",
        "bfloat16": f"{machine.units} units",
        "float32": "vector units (no bf16 matrix units)",
    }[machine.precision]
    unit = "GOP/s" if machine.precision == "int8" else "GFLOP/s"
    why = (
        f"in {machine.precision}, on {where}: {operations / 1e6:,.0f} million operations per token at "
        f"{rate / 1e9:,.0f} {unit} are {products / seconds:.0%} of a step"
    )
    return SpeedEstimate(f"training {size}", rounded(1 / seconds), why)


def estimate_translation(size: Size, searcher: Searcher, machine: Machine) -> SpeedEstimate:
    factor = RATE_FACTORS[searcher][size]
    rate = factor * machine.gflops["float32"] * 1e9
    operations = (
        f"{search_operations(config_of(size)) / 1e6:,.0f} million operations per token at {rate / 1e9:,.0f} GFLOP/s"
    )
    cores = f"{machine.threads} core{'s' if machine.threads > 1 else ''}"
    work, why = f"translating {size}", f"in float32, on vector units of {cores}: {operations}"
    if searcher == "numpy":
        why += ", in numpy, without the C++ engine"
    elif searcher == "int8":
        work = f"{work}, --precision auto"
        why = f"in int8, on VNNI units of {cores}: {operations}, {factor:g} times the float32 rate"
    return SpeedEstimate(work, rounded(rate / search_operations(config_of(size))), why)


def config_of(size: Size) -> TransformerConfig:
    return TransformerConfig(**PRESETS[size], src_vocab_size=VOCABULARY, tgt_vocab_size=VOCABULARY)


def training_operations(config: TransformerConfig, length: int = LENGTH) -> float:
    """Operations per target token: 6 per matrix parameter used by a target or source token, and those of attention.

    Two operations (multiply, add) in the forward pass and four in the backward pass. Embedding lookups cost nothing.
    """
    pairs = config.n_encoder_layers * length + config.n_decoder_layers * ((length + 1) / 2 + length)
    return 6 * (source_parameters(config) + target_parameters(config) + 2 * config.d_model * pairs)


def search_operations(config: TransformerConfig) -> float:
    """Operations per translated token: the decoder runs for every hypothesis of the beam, the encoder once."""
    return 2.0 * (source_parameters(config) + BEAM * target_parameters(config))


def source_parameters(config: TransformerConfig) -> int:
    """Matrix parameters used by a source token, including the key and value projections of cross-attention."""
    d, d_ff = config.d_model, config.d_ff
    return config.n_encoder_layers * (4 * d * d + 2 * d * d_ff) + config.n_decoder_layers * 2 * d * d


def target_parameters(config: TransformerConfig) -> int:
    d, d_ff = config.d_model, config.d_ff
    return config.n_decoder_layers * (6 * d * d + 2 * d * d_ff) + d * config.tgt_vocab_size


def rounded(number: float) -> int:
    """Round to two digits."""
    return int(float(f"{number:.1e}"))
