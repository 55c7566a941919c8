"""Shared by the benchmarks: options, description of the machine, table with ratios, JSON file."""

from __future__ import annotations

import argparse
import dataclasses
import importlib.metadata
import json
import platform
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

OURS = "regard"
PACKAGES = ("torch", "transformers", "eole", "OpenNMT-py", "joeynmt", "ctranslate2", "numpy")


@dataclass(frozen=True)
class Comparison:
    """Several systems on the same workload; names of Regard's begin with "regard"."""

    what: str
    unit: str
    figures: dict[str, list[float]]  # by system, one per repeat
    base: str  # the system that the ratios are to
    less_is_better: bool = False

    @property
    def medians(self) -> dict[str, float]:
        return {name: statistics.median(values) for name, values in self.figures.items()}

    def ratio(self, name: str, to: str) -> float:
        """How many times better one system is than another."""
        one, other = self.medians[name], self.medians[to]
        return other / one if self.less_is_better else one / other

    @property
    def ratios(self) -> dict[str, float]:
        return {name: self.ratio(name, self.base) for name in self.figures}

    def best(self, ours: bool) -> str | None:
        """The best of our systems, or of the others; None where there is none."""
        names = [name for name in self.figures if name.startswith(OURS) == ours]
        return max(names, key=lambda name: self.ratio(name, self.base), default=None)


class Report:
    """The comparisons of a script: printed one by one, written to JSON at the end."""

    def __init__(self) -> None:
        self.machine = describe_machine()
        self.comparisons: list[Comparison] = []
        self.left_out: dict[str, str] = {}
        self.notes: list[str] = []
        units = self.machine["matrix_units"] or "no bf16 units"
        print(f"{self.machine['cpu']}, {self.machine['threads']} threads, {units}, torch {self.machine['torch']}")

    def add(self, comparison: Comparison) -> None:
        self.comparisons.append(comparison)
        print(table(comparison), flush=True)

    def leave_out(self, system: str, reason: str) -> None:
        self.left_out[system] = reason
        print(f"left out: {system}: {reason}", flush=True)

    def note(self, text: str) -> None:
        self.notes.append(text)
        print(text, flush=True)

    def write(self, path: Path | None) -> None:
        if path is None:
            return
        comparisons = [
            {**dataclasses.asdict(one), "medians": one.medians, "ratios": one.ratios} for one in self.comparisons
        ]
        said = {"left_out": self.left_out, "notes": self.notes}
        content = {"machine": self.machine, **said, "comparisons": comparisons}
        path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", "utf-8")


def options(description: str | None) -> argparse.ArgumentParser:
    """The options that every script has."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5, help="timed turns of each system (default: 5)")
    parser.add_argument("--toy", action="store_true", help="sizes that say nothing but that the script works")
    parser.add_argument("--json", type=Path, help="write the figures here too")
    return parser


def describe_machine() -> dict[str, Any]:
    import torch

    from regard.cli.doctor import machine
    from regard.core.precision import cpu_matrix_units
    from regard.kernels.loader import library
    from regard.kernels.training import TRAINING

    return {
        **machine(),
        "cpu": cpu_name(),
        "matrix_units": cpu_matrix_units() or None,
        "threads": torch.get_num_threads(),
        "native_kernels": library(TRAINING) is not None,
        **{package: version(package) for package in PACKAGES},
    }


def cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def table(comparison: Comparison) -> str:
    """A line a system: median, least to most, ratio to the base, and for our best one that to the best peer."""
    ours, peer = comparison.best(ours=True), comparison.best(ours=False)
    width = max(map(len, comparison.figures)) + 2
    lines = [f"\n{comparison.what}: {comparison.unit}, and the ratio to {comparison.base}"]
    for name, values in comparison.figures.items():
        spread = f"{number(min(values))} to {number(max(values))}"
        ratio = comparison.ratio(name, comparison.base)
        line = f"  {name:<{width}}{number(comparison.medians[name]):>9}   {spread:<18}{ratio:6.2f}"
        if name == ours and peer not in (None, comparison.base):
            line += f"   {comparison.ratio(name, str(peer)):.2f} to {peer}"
        lines.append(line)
    return "\n".join(lines)


def summary(comparisons: Sequence[Comparison]) -> str:
    """One line for each comparison of ours with others: the best of either side."""
    lines = [f"{'':<52}{OURS:>10}{'best peer':>11}{'ratio':>8}"]
    for comparison in comparisons:
        ours, peer = comparison.best(ours=True), comparison.best(ours=False)
        if ours is None or peer is None:
            continue
        medians, ratio = comparison.medians, comparison.ratio(ours, peer)
        figures = f"{number(medians[ours]):>10}{number(medians[peer]):>11}{ratio:>8.2f}"
        lines.append(f"{f'{comparison.what}: {comparison.unit}':<52}{figures}   {ours} / {peer}")
    return "\n".join(lines)


def number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
