"""The instruction sets for which the engine is compiled into a wheel, and which of them this CPU has.

A wheel has one library per instruction set of its machine (hatch_build.py); the loader takes the best one that the CPU
supports. Without such a wheel the library is compiled here, for this CPU. `REGARD_CPU=avx2` sets the highest one to be
used, in both cases. Nothing but the standard library is needed: hatch_build.py imports this file too.
"""

from __future__ import annotations

import functools
import os
import platform
from dataclasses import dataclass
from pathlib import Path

from regard.errors import ConfigError

VARIABLE = "REGARD_CPU"
BASELINE = "baseline"
CPUINFO = Path("/proc/cpuinfo")
NATIVE = ("-march=native",)
FIRST_PROCESSOR = 1 << 14  # bytes of /proc/cpuinfo, which is slow to read whole on a machine of many cores
MACHINES = {"amd64": "x86_64", "x64": "x86_64", "arm64": "aarch64"}  # by other names

V3 = frozenset({"avx2", "fma", "f16c", "bmi1", "bmi2", "movbe", "abm"})
V4 = V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}


@dataclass(frozen=True)
class InstructionSet:
    name: str
    flags: tuple[str, ...]  # of the compiler
    needs: frozenset[str]  # of the flags in /proc/cpuinfo
    has_int8: bool = False  # instructions for products of int8 numbers


X86_64 = (
    InstructionSet(BASELINE, ("-march=x86-64",), frozenset()),
    InstructionSet("avx2", ("-march=x86-64-v3",), V3),
    InstructionSet("avx512", ("-march=x86-64-v4", "-mavx512vnni"), V4 | {"avx512_vnni"}, has_int8=True),
    InstructionSet(
        *("avx512-bf16", ("-march=x86-64-v4", "-mavx512vnni", "-mavx512bf16")),
        *(V4 | {"avx512_vnni", "avx512_bf16"}, True),
    ),
)
AARCH64 = (InstructionSet(BASELINE, (), frozenset()),)  # with NEON, which every such CPU has


def instruction_sets(machine: str) -> tuple[InstructionSet, ...]:
    """Those of a machine, the best one last; none where the kernels are compiled for no other."""
    return {"x86_64": X86_64, "aarch64": AARCH64}.get(machine, ())


def this_machine() -> str:
    name = platform.machine().lower()
    return MACHINES.get(name, name)


@functools.cache
def cpu_flags() -> frozenset[str]:
    """The flags of the first processor in /proc/cpuinfo; none where there is no such file."""
    try:
        with CPUINFO.open("rb") as file:
            text = file.read(FIRST_PROCESSOR).decode("ascii", "replace")
    except OSError:
        return frozenset()
    lines = (line.partition(":") for line in text.splitlines())
    return frozenset(next((flags.split() for name, _, flags in lines if name.strip() in ("flags", "Features")), ()))


def cap() -> InstructionSet | None:
    """The highest one to be used, by REGARD_CPU; None: no limit."""
    wanted, known = os.environ.get(VARIABLE, ""), instruction_sets(this_machine())
    if not wanted or wanted == "native":
        return None
    for one in known:
        if one.name == wanted:
            return one
    names = ", ".join(one.name for one in known)
    raise ConfigError(f"the environment variable {VARIABLE} is {wanted!r}; set it to one of {names}, or to native")


def supported() -> tuple[InstructionSet, ...]:
    """What this CPU has, up to REGARD_CPU; the best one first."""
    known, limit = instruction_sets(this_machine()), cap()
    allowed = known if limit is None else known[: known.index(limit) + 1]
    return tuple(one for one in reversed(allowed) if one.needs <= cpu_flags())


def has_int8() -> bool:
    """Whether the best instruction set has instructions for products of int8 numbers."""
    return any(one.has_int8 for one in supported())


def native_flags() -> tuple[str, ...]:
    """Compiler flags for a library that only this machine uses."""
    limit = cap()
    return NATIVE if limit is None or not limit.needs <= cpu_flags() else limit.flags
