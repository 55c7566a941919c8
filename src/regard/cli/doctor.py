"""`regard doctor`: hardware, software and expected speed of this machine."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
import os
import platform
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from regard.extras import EXTRAS, installed

if TYPE_CHECKING:
    import torch

NO_TORCH = 'not installed: training, traces and importing need it: pip install "regard[torch]"'
PROBE_SIZE = 1024
PROBE_SECONDS = 0.3
VARIABLES = ("REGARD_MODEL", "REGARD_MODELS", "REGARD_DATA", "REGARD_CACHE", "REGARD_KERNELS", "REGARD_CPU")
OPTIONAL = ("matplotlib", "zstandard")


@click.command("doctor", short_help="Show hardware, software and expected speed.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(as_json: bool) -> None:
    """Show this machine's cores, memory, matrix units and versions, and the expected speed of Regard on it.

    Measures the speed of matrix multiplication for a few seconds and estimates the speed of training and translation
    from it. Include the output in bug reports.

    \b
    Examples:
      regard doctor
      regard doctor --json > machine.json
    """
    computed = computing() if installed("torch") else computing_without_torch()
    found = {**machine(), **computed, **engine(), "variables": variables(), "extras": extras()}
    click.echo(json.dumps(found, ensure_ascii=False, indent=2) if as_json else readable(found))


def machine() -> dict[str, Any]:
    from regard import __version__

    return {
        "regard": __version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "cores": usable_cores(),
        "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "memory_bytes": memory_bytes(),
        "disk_free_bytes": shutil.disk_usage(Path.cwd()).free,
    }


def usable_cores() -> int:
    """The cores that this process may use; a container may have fewer than the machine."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def memory_bytes() -> int | None:
    """The memory of the machine or the limit of the container; None if unknown."""
    try:
        whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
    try:
        return min(whole, int(Path("/sys/fs/cgroup/memory.max").read_text("ascii")))
    except (OSError, ValueError):  # no limit
        return whole


def engine() -> dict[str, Any]:
    """The C++ library of the engine, or why there is none, and the instruction sets of the CPU, the best one first."""
    from regard.kernels.bindings import ENGINE
    from regard.kernels.instruction_sets import supported
    from regard.kernels.loader import NoKernelsError, load

    library, reason = None, None
    try:
        library = load(ENGINE).build
    except NoKernelsError as error:
        reason = str(error)
    return {"engine": library, "no_engine_reason": reason, "instruction_sets": [one.name for one in supported()]}


def computing_without_torch() -> dict[str, Any]:
    """Speed of matrix products in numpy, and of translation."""
    import numpy as np

    from regard.cli.speed_estimate import Machine, estimate_speeds
    from regard.kernels.bindings import ENGINE
    from regard.kernels.instruction_sets import has_int8
    from regard.kernels.loader import NoKernelsError, load

    left, right = np.random.default_rng(1).standard_normal((2, PROBE_SIZE, PROBE_SIZE), np.float32)
    speed, not_stored, no_kernels = {"float32": best_rate(lambda: left @ right)}, None, None
    try:
        not_stored = load(ENGINE).not_stored or None
    except NoKernelsError as error:
        no_kernels = str(error)
    kernels = no_kernels is None
    here = Machine(False, speed, None, "", usable_cores(), kernels, has_int8())
    return {
        "torch": None,
        "threads": usable_cores(),
        "device": "cpu",
        "gpu": None,
        "native_kernels": kernels,
        "no_kernels_reason": no_kernels,
        "kernels_not_stored_reason": not_stored,
        "matrix_units": None,
        "precision": None,
        "precision_reason": None,
        "gflops": speed,
        "expect": [dataclasses.asdict(estimate) for estimate in estimate_speeds(here)],
    }


def computing() -> dict[str, Any]:
    """Device, precision and speed of matrix products in torch."""
    import torch

    from regard.cli.speed_estimate import Machine, estimate_speeds
    from regard.core.precision import choose_dtype, cpu_has_vnni, cpu_matrix_units, takes_int8
    from regard.kernels.bindings import ENGINE
    from regard.kernels.loader import NoKernelsError, load
    from regard.kernels.training import MEMORY, TRAINING

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    units = cpu_matrix_units()
    chosen = choose_dtype("auto", device)
    speed = {name: gigaflops(getattr(torch, name), device) for name in ("float32", "bfloat16")}
    precision = "int8" if takes_int8("auto", device) else str(chosen).removeprefix("torch.")
    no_kernels, not_stored = None, None
    try:
        not_stored = next(filter(None, [load(wanted).not_stored for wanted in (TRAINING, ENGINE, MEMORY)]), None)
    except NoKernelsError as error:
        no_kernels = str(error)
    kernels, threads = no_kernels is None, torch.get_num_threads()
    vnni = cpu_has_vnni()
    if precision == "int8":
        speed["int8"] = int8_rate()
    here = Machine(device.type == "cuda", speed, precision, units, threads, kernels, vnni)
    return {
        "torch": torch.__version__,
        "threads": threads,
        "device": device.type,
        "gpu": torch.cuda.get_device_name(device) if device.type == "cuda" else None,
        "native_kernels": kernels,
        "no_kernels_reason": no_kernels,
        "kernels_not_stored_reason": not_stored,
        "matrix_units": units or None,
        "precision": precision,
        "precision_reason": reason(device.type, units, precision),
        "gflops": speed,
        "expect": [dataclasses.asdict(estimate) for estimate in estimate_speeds(here)],
    }


def reason(device: str, units: str, precision: str) -> str:
    if device == "cuda":
        return f"the GPU has {'' if precision == 'bfloat16' else 'no '}bf16 matrix units"
    if precision == "int8":
        return "the CPU has VNNI, and no AMX"
    return f"the CPU has {units}" if units else "the CPU has neither AMX nor AVX512-BF16"


def gigaflops(dtype: torch.dtype, device: torch.device) -> float:
    """GFLOP/s of PyTorch's product of two square matrices."""
    import torch

    a, b = (torch.randn(PROBE_SIZE, PROBE_SIZE, device=device).to(dtype) for _ in range(2))
    out = torch.empty_like(a)

    def multiply() -> None:
        torch.matmul(a, b, out=out)
        if device.type == "cuda":
            torch.cuda.synchronize(device)

    return best_rate(multiply)


def int8_rate() -> float:
    """Billions of operations per second of our int8 product of two packed square matrices."""
    import torch

    from regard.core.int8 import multiply, pack_rows

    left, right = (pack_rows(torch.randn(PROBE_SIZE, PROBE_SIZE), left)[0] for left in (True, False))
    return best_rate(lambda: multiply(left, right, torch.bfloat16))


def best_rate(multiply: Callable[[], object]) -> float:
    """The rate of the fastest product within PROBE_SECONDS, after one to warm up.

    The fastest, since other processes can only slow it down.
    """
    multiply()
    started = now = time.perf_counter()
    least = float("inf")
    while now - started < PROBE_SECONDS:
        before = now
        multiply()
        now = time.perf_counter()
        least = min(least, now - before)
    return 2 * PROBE_SIZE**3 / least / 1e9


def variables() -> dict[str, str | None]:
    """All REGARD_ environment variables: the known ones, and others that are set, perhaps by mistake."""
    others = sorted(name for name in os.environ if name.startswith("REGARD_") and name not in VARIABLES)
    return {name: os.environ.get(name) for name in (*VARIABLES, *others)}


def extras() -> dict[str, str | None]:
    """Versions of optional packages; None if not installed."""
    found: dict[str, str | None] = {}
    for package in OPTIONAL:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = None
    return found


def readable(found: dict[str, Any]) -> str:
    memory, load = found["memory_bytes"], found["load"]
    speeds = ", ".join(
        f"{name} {speed:,.0f} {'GOP/s' if name == 'int8' else 'GFLOP/s'}" for name, speed in found["gflops"].items()
    )
    lines = {
        "Regard": found["regard"],
        "Python": f"{found['python']}, {found['system']}",
        "cores": f"{found['cores']}" + ("" if load is None else f" (load average {load})"),
        "memory": "unknown" if memory is None else gigabytes(memory),
        "free disk space": gigabytes(found["disk_free_bytes"]),
        **(torch_lines(found) if found["torch"] else {"torch": NO_TORCH}),
        "C++ engine": engine_line(found),
        "C++ kernels": kernels_line(found),
        "matrix products": speeds,
        **{name: "not set" if value is None else value for name, value in found["variables"].items()},
        **{
            name: version or f'not installed: pip install "regard[{EXTRAS[name]}]"'
            for name, version in found["extras"].items()
        },
    }
    return f"{table(lines)}\n\n{readable_estimates(found['expect'])}"


def torch_lines(found: dict[str, Any]) -> dict[str, str]:
    return {
        "torch": f"{found['torch']}, {found['threads']} threads",
        "GPU": found["gpu"] or "none",
        "matrix units": found["matrix_units"] or "none (neither AMX nor AVX512-BF16)",
        "precision": f"{found['precision']}, because {found['precision_reason']}",
    }


def engine_line(found: dict[str, Any]) -> str:
    has = f"this CPU has {', '.join(found['instruction_sets']) or 'no instruction set of a wheel'}"
    if found["engine"] is None:
        return f"missing: {found['no_engine_reason']}. Translation runs in numpy, several times slower ({has})"
    where = f"from the package ({found['engine'].split()[0]}; {has})"
    return where if " " in found["engine"] else "compiled on this machine"


def kernels_line(found: dict[str, Any]) -> str:
    if found["torch"] is None:
        return "those of training need torch"
    if not found["native_kernels"]:
        return f"not in use: {found['no_kernels_reason']}"
    not_stored = found["kernels_not_stored_reason"]
    return "in use" if not_stored is None else f"in use, but compiled again by every process: {not_stored}"


def readable_estimates(estimates: list[dict[str, Any]]) -> str:
    lines = {one["work"]: f"{one['tokens_per_second']:>9,}  {one['why']}" for one in estimates}
    return (
        "Expected speed in target tokens per second (vocabulary 10,000, beam 4), estimated from the rate of matrix\n"
        "products, which other processes lower. To measure it, run bench/train.py and bench/decode.py."
        f"\n\n{table(lines)}"
    )


def table(lines: dict[str, str]) -> str:
    width = max(map(len, lines)) + 2
    return "\n".join(f"{name:<{width}}{value}" for name, value in lines.items())


def gigabytes(count: int) -> str:
    return f"{count / 2**30:,.1f} GiB"
