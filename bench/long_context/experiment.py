"""Shared by the experiments: runs that can be resumed, one JSON line each, and a table with paired differences.

A run is a setting and a seed; the same seed gives every setting the same data. A run whose line is in the results is
not repeated. Every experiment has

    --seeds N        paired seeds [5]
    --only NAME …    some of the settings
    --results FILE   JSON lines [runs/long_context/EXPERIMENT.jsonl]
    --table          print the table of what is there, run nothing
    --size NAME      full; small: seconds to half a minute of one core per run; toy: says nothing but that
                     the script works, and needs no data [full]
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

Figures = dict[str, float]
Run = Callable[[str, int], Figures]  # setting, seed → figures
T_95 = (math.nan, 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)  # Student's t by degrees of freedom


class Size(NamedTuple):
    """Of a run."""

    length: int  # tokens of a text
    rows: int  # of a batch
    steps: int
    lr: float
    evaluation: int  # batches
    d_model: int = 64
    symbols: int = 0  # of a synthetic task
    pairs: int = 0

    def shape(self, n_layers: int) -> dict[str, Any]:
        """Settings of a model."""
        d_ff = 2 * self.d_model
        sizes = {
            "d_model": self.d_model,
            "d_ff": d_ff,
            "n_heads": 4,
            "n_layers": n_layers,
            "max_positions": self.length,
        }
        return {**sizes, "dropout": 0.0, "attention_dropout": 0.0}


def options(description: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5, help="paired seeds [5]")
    parser.add_argument("--length", type=int, help="tokens of a text, if not those of the size")
    parser.add_argument("--steps", type=int, help="training steps of a run, if not those of the size")
    parser.add_argument("--lr", type=float, help="learning rate, if not that of the size")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="some of the settings")
    parser.add_argument("--results", type=Path, help="JSON lines of the runs [runs/long_context/EXPERIMENT.jsonl]")
    parser.add_argument("--table", action="store_true", help="print the table of what is there, run nothing")
    parser.add_argument("--size", choices=("full", "small", "toy"), default="full", help="of the runs [full]")
    return parser


def size_of(args: argparse.Namespace, sizes: Mapping[str, Size]) -> Size:
    """The size by its name, and what is chosen otherwise."""
    given = {name: value for name in Size._fields if (value := getattr(args, name, None)) is not None}
    return sizes[args.size]._replace(**given)


class Experiment:
    """`determinants` are whatever else a run depends on, as on its size: runs that differ in them never mix."""

    def __init__(self, name: str, settings: Sequence[str], base: str, size: Size, **determinants: Any) -> None:
        self.name, self.settings, self.base = name, list(settings), base
        self.determinants = {**determinants, **{key: value for key, value in size._asdict().items() if value}}

    def conduct(self, run: Run, args: argparse.Namespace) -> None:
        path: Path = args.results or Path("runs") / "long_context" / f"{self.name}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        chosen = args.only or self.settings
        if unknown := set(chosen) - set(self.settings):
            raise SystemExit(f"--only {' '.join(sorted(unknown))}: the settings are {', '.join(self.settings)}")
        done = self.read(path)
        for seed in range(1, 0 if args.table else args.seeds + 1):  # all settings of a seed before the next one
            for setting in chosen:
                if (setting, seed) in done:
                    continue
                started = time.process_time()
                figures = run(setting, seed)
                seconds = time.process_time() - started
                done[setting, seed] = figures
                row = {"setting": setting, "seed": seed, "cpu_seconds": round(seconds, 1), **self.determinants}
                with path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({**row, "figures": figures}) + "\n")
                shown = "  ".join(f"{name} {value:.4g}" for name, value in figures.items())
                print(f"{self.name}, {setting}, seed {seed}: {shown}  ({seconds:.0f} CPU s)", flush=True)
        print(self.table(done))

    def read(self, path: Path) -> dict[tuple[str, int], Figures]:
        """The runs that are there, of the same determinants."""
        if not path.exists():
            return {}
        rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        same = [row for row in rows if all(row.get(key) == value for key, value in self.determinants.items())]
        return {(row["setting"], row["seed"]): row["figures"] for row in same}

    def table(self, done: Mapping[tuple[str, int], Figures]) -> str:
        """A row a setting: means, and of the first figure the mean paired difference to the base with its interval."""
        if not done:
            return f"{self.name}: no runs yet"
        names = list(next(iter(done.values())))
        lines = [f"\n{self.name}, {', '.join(f'{key} {value}' for key, value in self.determinants.items())}"]
        lines.append(f"| | seeds | {' | '.join(names)} | {names[0]} less that of {self.base}, 95 % |")
        lines.append("|---|---:|" + "---:|" * (len(names) + 1))
        for setting in self.settings:
            seeds = [seed for other, seed in done if other == setting]
            if not seeds:
                continue
            means = [statistics.fmean(done[setting, seed][name] for seed in seeds) for name in names]
            shown = " | ".join(f"{mean:.4g}" for mean in means)
            lines.append(f"| {setting} | {len(seeds)} | {shown} | {self.difference(done, setting, names[0])} |")
        return "\n".join(lines)

    def difference(self, done: Mapping[tuple[str, int], Figures], setting: str, name: str) -> str:
        """Mean and half the width of the interval over the seeds that both have."""
        both = [seed for other, seed in done if other == setting and (self.base, seed) in done]
        if setting == self.base or not both:
            return ""
        differences = [done[setting, seed][name] - done[self.base, seed][name] for seed in both]
        mean = statistics.fmean(differences)
        if len(both) < 2:
            return f"{mean:+.4f}"
        half = t_95(len(both) - 1) * statistics.stdev(differences) / math.sqrt(len(both))
        return f"{mean:+.4f} ± {half:.4f}{'' if abs(mean) > half else ', cannot be told apart'}"


def t_95(degrees: int) -> float:
    return T_95[degrees] if degrees < len(T_95) else 1.96 + 2.4 / degrees
