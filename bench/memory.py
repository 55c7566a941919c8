"""Peak memory of training beside nn.Transformer's: steps of many shapes, each system in a process of its own.

    python bench/memory.py                     # small and base: half an hour
    python bench/memory.py --size small --steps 300 --repeats 1

Ours keeps freed memory as `regard train` does; the peer is run as its users run it, which takes less. The second table
leaves out what importing alone takes.
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
    """The most that this process has had in memory."""
    try:
        # Not ru_maxrss: on Linux a process begins with that of the one which started it.
        lines = Path("/proc/self/status").read_text("utf-8").splitlines()
        return next(int(line.split()[1]) / 2**10 for line in lines if line.startswith("VmHWM:"))
    except (OSError, StopIteration):
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak / 2**20 if sys.platform == "darwin" else peak / 2**10


def run_alone(system: str, size: str, steps: int) -> None:
    """Train a little; print the peaks after importing and at the end."""
    import torch
    from peers import TorchTransformer
    from steps import NAMES, peer_step, regard_step
    from work import config_of, make_batches

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
    """(megabytes at the peak, those of them that came after importing)"""
    command = [sys.executable, __file__, "--alone", system, "--size", size, "--steps", str(steps)]
    imported, peak = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return peak, peak - imported


def main(argv: Sequence[str] | None = None) -> None:
    parser = options(__doc__)
    parser.add_argument("--size", choices=list(STEPS), help="only this one (default: small and base)")
    parser.add_argument("--steps", type=int, help=f"of each process (default: {STEPS['small']} and {STEPS['base']})")
    parser.add_argument("--alone", metavar="SYSTEM", help="be the process of one system")
    args = parser.parse_args(argv)
    if args.alone:
        return run_alone(args.alone, args.size, args.steps)
    report = Report()
    sizes = ("toy",) if args.toy else (args.size,) if args.size else ("small", "base")
    systems = SYSTEMS[::2] if args.toy else SYSTEMS
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
