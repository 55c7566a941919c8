"""Attention over long texts: time and peak memory, forward and backward, by length; with the fitted exponents.

    python bench/context.py                                  # 512 to 16,384 tokens: a quarter of an hour
    python bench/context.py --most 4096 --repeats 1 --cpu-time

8 heads of 64, window 256. The base is PyTorch's fused causal attention. Every system is measured in a process of its
own, in turn. `--cpu-time` measures the CPU seconds of one thread, for machines on which something else is running.
"""

from __future__ import annotations

import json
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

from memory import peak_megabytes
from report import Comparison, Report, options

HEADS, SIZE, WINDOW = 8, 64, 256
LENGTHS = (512, 1024, 2048, 4096, 8192, 16_384)
LONGEST_MASKED = 8192  # the mask of the next length takes a gigabyte
FULL, MASKED = "full SDPA", "masked SDPA"
KINDS = ("blockwise", "window", "sparse", "fixed", "block", "adaptive_span", "linformer")
SYSTEMS = (FULL, MASKED, *(f"regard {kind}" for kind in KINDS))


def attention(system: str, length: int) -> Callable[..., object]:
    """(q, k, v) → out"""
    import torch
    import torch.nn.functional as F

    from regard.config import attention as config
    from regard.core.attention.build import build_attention
    from regard.core.masks import CausalMask

    if system == FULL:
        return lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True)
    if system == MASKED:
        offset = torch.arange(length)[:, None] - torch.arange(length)
        mask = (offset >= 0) & (offset <= WINDOW)
        return lambda q, k, v: F.scaled_dot_product_attention(q, k, v, mask)
    n_blocks = max(length // (2 * WINDOW), 1)
    configs = {
        "blockwise": config.BlockwiseAttentionConfig(),
        "window": config.WindowAttentionConfig(window=(WINDOW,)),
        "sparse": config.SparseAttentionConfig(stride=WINDOW // 2),
        "fixed": config.SparseAttentionConfig(("fixed",), stride=WINDOW // 2),
        "block": config.BlockAttentionConfig(length, n_blocks, (0, min(1, n_blocks - 1))),
        "adaptive_span": config.AdaptiveSpanConfig(max_span=WINDOW, initial_span=WINDOW // 2),
        "linformer": config.LinformerConfig(length, WINDOW),
    }
    chosen = configs[system.removeprefix("regard ")]
    made = build_attention(chosen, HEADS * SIZE, HEADS, chosen.roles[-1])
    for parameter in made.parameters():
        torch.nn.init.uniform_(parameter, 0.0, length**-0.5)
    causal = CausalMask(length, length) if "decoder" in chosen.roles else None
    return lambda q, k, v: made.mix(q, k, v, causal, None)  # type: ignore[union-attr, arg-type]


def run_alone(system: str, lengths: Sequence[int], cpu_time: bool) -> None:
    """Print seconds and peak MiB less imports per length, from the shortest on, so that each peak is its own."""
    import torch

    clock = time.process_time if cpu_time else time.perf_counter
    if cpu_time:
        torch.set_num_threads(1)
    torch.manual_seed(1)
    found, imported = [], peak_megabytes()
    for length in lengths:
        q, k, v = (torch.randn(1, HEADS, length, SIZE, requires_grad=True) for _ in range(3))
        grad, attend = torch.randn(1, HEADS, length, SIZE), attention(system, length)
        seconds = []
        for _ in range(2):  # the first is the warm-up
            started = clock()
            torch.autograd.grad(attend(q, k, v), (q, k, v), grad)
            seconds.append(clock() - started)
        found.append((seconds[-1], peak_megabytes() - imported))
    print(json.dumps(found))


def measure(system: str, lengths: Sequence[int], cpu_time: bool) -> dict[int, tuple[float, float]]:
    lengths = [length for length in lengths if system != MASKED or length <= LONGEST_MASKED]
    command = [sys.executable, __file__, "--alone", system, "--lengths", *map(str, lengths)]
    shown = subprocess.run(command + ["--cpu-time"] * cpu_time, check=True, capture_output=True, text=True).stdout
    return {length: (seconds, peak) for length, (seconds, peak) in zip(lengths, json.loads(shown), strict=True)}


def exponent(values: dict[int, float]) -> float:
    """The slope of log value over log length."""
    return statistics.linear_regression([math.log(n) for n in values], [math.log(x) for x in values.values()]).slope


def main(argv: Sequence[str] | None = None) -> None:
    parser = options(__doc__)
    parser.add_argument("--most", type=int, default=LENGTHS[-1], help=f"the longest text [{LENGTHS[-1]}]")
    parser.add_argument("--cpu-time", action="store_true", help="CPU seconds of one thread instead of time")
    parser.add_argument("--alone", metavar="SYSTEM", help="internal: measure one system in this process")
    parser.add_argument("--lengths", type=int, nargs="*", help="internal: of --alone")
    args = parser.parse_args(argv)
    if args.alone:
        return run_alone(args.alone, args.lengths, args.cpu_time)
    report = Report()
    lengths = (300, 600) if args.toy else [length for length in LENGTHS if length <= args.most]
    systems = (FULL, "regard window") if args.toy else SYSTEMS
    turns = [{system: measure(system, lengths, args.cpu_time) for system in systems} for _ in range(args.repeats)]
    unit = "CPU s" if args.cpu_time else "s"
    for i, (what, of) in enumerate((("attention", unit), ("peak memory less imports", "MiB"))):
        medians: dict[str, dict[int, float]] = {system: {} for system in systems}
        for length in lengths:
            there = [system for system in systems if length in turns[0][system]]
            figures = {system: [turn[system][length][i] for turn in turns] for system in there}
            comparison = Comparison(f"{what}, {length:,} tokens", of, figures, FULL, less_is_better=True)
            report.add(comparison)
            for system, median in comparison.medians.items():
                medians[system][length] = median
        for system, values in medians.items():
            long = {length: value for length, value in values.items() if length >= 2048} or values
            report.note(f"{what} of {system} grows as length to the power of {exponent(long):.2f}")
    report.write(args.json)


if __name__ == "__main__":
    main()
