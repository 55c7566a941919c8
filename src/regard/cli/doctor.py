"""`regard doctor`: what this machine has, and what to expect of it."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    import torch

PROBE_SIZE = 1024
PROBE_SECONDS = 0.5
VARIABLES = ("REGARD_MODEL", "REGARD_MODELS", "REGARD_DATA", "REGARD_CACHE")
EXTRAS = {"matplotlib": "plot", "zstandard": "zstd"}
TYPICAL = ("small", 8_000)  # the preset and vocabulary that the expectation is about


@click.command("doctor", short_help="What this machine has and can do.")
@click.option("--json", "as_json", is_flag=True, help="The findings as one JSON object.")
def command(as_json: bool) -> None:
    """Look at this machine: cores, memory, matrix units, precision, speed, and what to expect.

    Takes some seconds, one of them for measuring how fast matrices are multiplied. Send its output along when you
    report a problem.

    \b
    Examples:
      regard doctor
      regard doctor --json > machine.json
    """
    found = {**machine(), **computing(), "variables": variables(), "extras": extras()}
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
    """Those this process may use, which a container can make fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def memory_bytes() -> int | None:
    """The machine's memory, or the container's share of it; None where the system does not say."""
    try:
        whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
    try:
        return min(whole, int(Path("/sys/fs/cgroup/memory.max").read_text("ascii")))
    except (OSError, ValueError):  # no such limit, or "max"
        return whole


def computing() -> dict[str, Any]:
    """What torch finds and how fast it is, on the device that training takes."""
    import torch

    from regard.core.native import library
    from regard.core.precision import choose_dtype, cpu_matrix_units

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    units = cpu_matrix_units()
    chosen = choose_dtype("auto", device)
    speed = {name: gigaflops(getattr(torch, name), device) for name in ("float32", "bfloat16")}
    precision = str(chosen).removeprefix("torch.")
    return {
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "device": device.type,
        "gpu": torch.cuda.get_device_name(device) if device.type == "cuda" else None,
        "native_kernels": library() is not None,
        "matrix_units": units or None,
        "precision": precision,
        "precision_reason": reason(device.type, units, precision),
        "gflops": speed,
        "expect": expectation(device.type, speed[precision], precision),
    }


def reason(device: str, units: str, precision: str) -> str:
    if device == "cuda":
        return f"the GPU has {'' if precision == 'bfloat16' else 'no '}bf16 matrix units"
    return f"the CPU has {units}" if units else "the CPU has neither AMX nor AVX512-BF16"


def gigaflops(dtype: torch.dtype, device: torch.device) -> float:
    """The rate of the fastest of the square matrix products that half a second has room for, a first one left out.

    The fastest, since other programs only ever make it slower.
    """
    import torch

    a, b = (torch.randn(PROBE_SIZE, PROBE_SIZE, device=device).to(dtype) for _ in range(2))
    out = torch.empty_like(a)

    def multiply() -> float:
        torch.matmul(a, b, out=out)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return time.perf_counter()

    started = now = multiply()
    least = float("inf")
    while now - started < PROBE_SECONDS:
        before, now = now, multiply()
        least = min(least, now - before)
    return 2 * PROBE_SIZE**3 / least / 1e9


def expectation(device: str, speed: float, precision: str) -> str:
    """One sentence. A token costs six operations a parameter: two forwards, four backwards."""
    from regard.config import PRESETS, ModelConfig
    from regard.models.ledger import ledger

    preset, vocabulary = TYPICAL
    model = ModelConfig(**PRESETS[preset], src_vocab_size=vocabulary, tgt_vocab_size=vocabulary)
    most = speed * 1e9 / (6 * ledger(model).total)
    return (
        f"{'This GPU' if device == 'cuda' else 'This CPU'} multiplies at {speed:,.0f} GFLOP/s in {precision}, so "
        f"training a '{preset}' model can reach at most about {rounded(most):,} target tokens a second; expect a part "
        f"of that, since products are not all there is to do."
    )


def rounded(number: float) -> int:
    """To two figures."""
    return int(float(f"{number:.1e}"))


def variables() -> dict[str, str | None]:
    """Every REGARD_ variable: those that mean something, and others that are set, a mistyped one perhaps."""
    others = sorted(name for name in os.environ if name.startswith("REGARD_") and name not in VARIABLES)
    return {name: os.environ.get(name) for name in (*VARIABLES, *others)}


def extras() -> dict[str, str | None]:
    """The versions of optional packages; None for one that is not installed."""
    found: dict[str, str | None] = {}
    for package in EXTRAS:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = None
    return found


def readable(found: dict[str, Any]) -> str:
    memory, load = found["memory_bytes"], found["load"]
    speeds = ", ".join(f"{name} {speed:,.0f} GFLOP/s" for name, speed in found["gflops"].items())
    lines = {
        "Regard": found["regard"],
        "Python": f"{found['python']}, {found['system']}",
        "cores": f"{found['cores']}"
        + ("" if load is None else f", and {load} programs on average were running in the last minute"),
        "memory": "unknown" if memory is None else gigabytes(memory),
        "free disk here": gigabytes(found["disk_free_bytes"]),
        "torch": f"{found['torch']}, {found['threads']} threads",
        "GPU": found["gpu"] or "none that torch can use",
        "matrix units": found["matrix_units"] or "none (neither AMX nor AVX512-BF16)",
        "precision": f"{found['precision']}, because {found['precision_reason']}",
        "C++ kernels": "in use" if found["native_kernels"] else "not in use: they need a C++ compiler such as g++",
        "matrix products": speeds,
        **{name: "not set" if value is None else value for name, value in found["variables"].items()},
        **{
            name: version or f"not installed: pip install 'regard[{EXTRAS[name]}]'"
            for name, version in found["extras"].items()
        },
    }
    width = max(map(len, lines)) + 2
    return "\n".join(f"{name:<{width}}{value}" for name, value in lines.items()) + f"\n\n{found['expect']}"


def gigabytes(count: int) -> str:
    return f"{count / 2**30:,.1f} GiB"
