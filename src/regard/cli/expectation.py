"""What speed to expect of a machine, from the rate of its matrix products: estimates, and why they are what they are.

A step of training is its useful products (as bench/train.py counts them) at the rate of the precision, and a rest that
is no product, which takes as long as so many float32 operations. A translation with beam 4 is its products at a share
of the float32 rate. The rest and the shares are what was measured on two cores with AVX512-BF16 and VNNI (docs/LOG.md):
elsewhere they will be somewhat different, and on a GPU they are not known at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from regard.config import PRESETS, TransformerConfig

Size = Literal["small", "base"]
SIZES: tuple[Size, ...] = ("small", "base")
Searcher = Literal["float32", "int8", "model"]  # the engine in one of its forms; a model that is searched itself
VOCABULARY, LENGTH, BEAM = 10_000, 17, 4  # as in bench/
REST: dict[Size, float] = {"small": 20e6, "base": 70e6}  # float32 operations a target token
REST_INT8: dict[Size, float] = {"small": 13e6, "base": 44e6}  # ours, whose products are as fast in a step as alone
SHARES: dict[Searcher, dict[Size, float]] = {  # of the float32 rate
    "float32": {"small": 0.8, "base": 1.0},
    "int8": {"small": 2.0, "base": 3.0},
    "model": {"small": 0.4, "base": 0.55},
}


@dataclass(frozen=True)
class Expectation:
    work: str
    tokens_per_second: int  # target tokens, to two figures
    why: str


@dataclass(frozen=True)
class Machine:
    """What the estimates depend on."""

    gpu: bool
    gflops: Mapping[str, float]  # by precision
    precision: str  # of training
    units: str  # for bf16; '' if there are none
    threads: int
    kernels: bool  # whether C++ can be compiled
    vnni: bool


def expectations(machine: Machine) -> list[Expectation]:
    trained = [expect_training(size, machine) for size in SIZES]
    if machine.gpu:
        return trained
    searchers: tuple[Searcher, ...] = ("model",)
    if machine.kernels:
        searchers = ("float32", "int8") if machine.vnni else ("float32",)
    return trained + [expect_translation(size, searcher, machine) for searcher in searchers for size in SIZES]


def expect_training(size: Size, machine: Machine) -> Expectation:
    rate, operations = machine.gflops[machine.precision] * 1e9, training_operations(config_of(size))
    products = operations / rate
    if machine.gpu:
        why = f"at most: its products alone at {rate / 1e9:,.0f} GFLOP/s in {machine.precision}"
        return Expectation(f"training {size}", rounded(1 / products), why)
    rest = (REST_INT8 if machine.precision == "int8" else REST)[size]
    seconds = products + rest / (machine.gflops["float32"] * 1e9)
    where = {
        "int8": "the VNNI units",
        "bfloat16": f"{machine.units} units",
        "float32": "the vector units, for want of bf16 ones",
    }[machine.precision]
    unit = "GOP/s" if machine.precision == "int8" else "GFLOP/s"
    why = (
        f"in {machine.precision}, on {where}: products of {operations / 1e6:,.0f} million operations a token at "
        f"{rate / 1e9:,.0f} {unit} take {products / seconds:.0%} of a step"
    )
    return Expectation(f"training {size}", rounded(1 / seconds), why)


def expect_translation(size: Size, searcher: Searcher, machine: Machine) -> Expectation:
    share = SHARES[searcher][size]
    rate = share * machine.gflops["float32"] * 1e9
    done = f"{search_operations(config_of(size)) / 1e6:,.0f} million operations a token at {rate / 1e9:,.0f} GFLOP/s"
    cores = f"{machine.threads} core{'s' if machine.threads > 1 else ''}"
    work, why = f"translating {size}", f"in float32, on the vector units of {cores}: {done}"
    if searcher == "model":
        why += ", without the engine, which needs a C++ compiler"
    elif searcher == "int8":
        work = f"{work}, --precision auto"
        why = f"in int8, on the VNNI units of {cores}: {done}, {share:g} times the float32 rate"
    return Expectation(work, rounded(rate / search_operations(config_of(size))), why)


def config_of(size: Size) -> TransformerConfig:
    return TransformerConfig(**PRESETS[size], src_vocab_size=VOCABULARY, tgt_vocab_size=VOCABULARY)


def training_operations(config: TransformerConfig, length: int = LENGTH) -> float:
    """Useful ones for a target token: 6 a matrix parameter that it or a source token meets, and the attention's own.

    Two operations (multiply, add) forwards and four backwards. Embeddings are looked up, the output is multiplied.
    """
    pairs = config.n_encoder_layers * length + config.n_decoder_layers * ((length + 1) / 2 + length)
    return 6 * (source_parameters(config) + target_parameters(config) + 2 * config.d_model * pairs)


def search_operations(config: TransformerConfig) -> float:
    """Of a translated token: every hypothesis of the beam is gone through, the source once."""
    return 2.0 * (source_parameters(config) + BEAM * target_parameters(config))


def source_parameters(config: TransformerConfig) -> int:
    """In the matrices that a source token meets, those of the decoder's keys and values among them."""
    d, d_ff = config.d_model, config.d_ff
    return config.n_encoder_layers * (4 * d * d + 2 * d * d_ff) + config.n_decoder_layers * 2 * d * d


def target_parameters(config: TransformerConfig) -> int:
    d, d_ff = config.d_model, config.d_ff
    return config.n_decoder_layers * (6 * d * d + 2 * d * d_ff) + d * config.tgt_vocab_size


def rounded(number: float) -> int:
    """To two figures."""
    return int(float(f"{number:.1e}"))
