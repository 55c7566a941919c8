"""Peak memory of training, compared with nn.Transformer: steps of many shapes, one process per system.

    python bench/memory.py                     # small and base: half an hour
    python bench/memory.py --size small --steps 300 --repeats 1

Regard keeps freed memory as `regard train` does; the peer runs with its defaults, which need less. The second table
excludes the memory of the imports.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from report import Comparison, Report, options

STEPS = {"toy": 4, "small": 30, "base": 6}
SYSTEMS = ("nn.Transformer float32", "nn.Transformer bf16", "regard float32", "regard bf16", "regard int8")


def peak_megabytes() -> float:
    """Peak resident memory of this process."""
    try:
        # Not ru_maxrss: on Linux a process inherits that of its parent.
        lines = Path("/proc/self/status").read_text("utf-8").splitlines()
        return next(int(line.split()[1]) / 2**10 for line in lines if line.startswith("VmHWM:"))
    except (OSError, StopIteration):
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak / 2**20 if sys.platform == "darwin" else peak / 2**10


def run_alone(system: str, size: str, steps: int) -> None:
    """Train a few steps; print the peaks after the imports and at the end."""
    import torch
    from peers import TorchTransformer
    from training_steps import NAMES, peer_step, regard_step
    from workloads import config_of, make_batches

    from regard.kernels.memory import keep_freed_memory
    from regard.models.transformer import Transformer

    imported = peak_megabytes()
    torch.manual_seed(1)
    who, _, name = system.rpartition(" ")
    if who == "regard":
        keep_freed_memory()
        step = regard_step(Transformer(config_of(size)), name)
    else:
        dtype = next(dtype for dtype, known in NAMES.items() if known == name)
        step = peer_step(TorchTransformer(config_of(size)), dtype)
    for batch in make_batches(steps, size):
        step(batch)
    print(json.dumps([imported, peak_megabytes()]))


def measure(system: str, size: str, steps: int) -> tuple[float, float]:
    """(peak in MiB, peak without imports)"""
    command = [sys.executable, __file__, "--alone", system, "--size", size, "--steps", str(steps)]
    imported, peak = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return peak, peak - imported


def main(argv: Sequence[str] | None = None) -> None:
    parser = options(__doc__)
    parser.add_argument("--size", choices=list(STEPS), help="model size [small and base]")
    parser.add_argument("--steps", type=int, help=f"of each process (default: {STEPS['small']} and {STEPS['base']})")
    parser.add_argument("--alone", metavar="SYSTEM", help="internal: measure one system in this process")
    args = parser.parse_args(argv)
    if args.alone:
        return run_alone(args.alone, args.size, args.steps)
    report = Report()
    sizes = ("toy",) if args.toy else (args.size,) if args.size else ("small", "base")
    systems = SYSTEMS[::4] if args.toy else SYSTEMS
    turns = [
        (size, {system: measure(system, size, args.steps or STEPS[size]) for system in systems})
        for _ in range(args.repeats)
        for size in sizes
    ]
    for size in sizes:
        for i, what in enumerate(("peak memory", "peak memory less imports")):
            figures = {system: [found[system][i] for of, found in turns if of == size] for system in systems}
            report.add(Comparison(f"{what}, train {size}", "MiB", figures, SYSTEMS[0], less_is_better=True))
    report.write(args.json)


if __name__ == "__main__":
    main()
