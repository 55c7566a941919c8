"""Attention over long texts: time and peak memory, forward and backward, by length; with the fitted exponents.

    python bench/context.py                                  # 512 to 32,768 tokens: three quarters of an hour
    python bench/context.py --repeats 1                      # the same, each once: some ten minutes
    python bench/context.py --most 4096 --repeats 1 --cpu-time
    python bench/context.py --only "full SDPA" "regard window" --lengths 8192

8 heads of 64, window 256; LSH attention with chunks of 64 and 4 rounds. The base is PyTorch's fused causal attention.
Beside it are local-attention (that of x-transformers), and the attentions of Longformer and Reformer in `transformers`,
without their projections. Longformer's looks to both sides, as "regard window, two-sided" does. Every system is
measured in a process of its own, in turn. `--cpu-time` measures the CPU seconds of one thread, for machines on which
something else is running.
"""

from __future__ import annotations

import json
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from memory import peak_megabytes
from peers import missing
from report import Comparison, Report, options

if TYPE_CHECKING:
    from torch import Tensor

HEADS, SIZE, WINDOW = 8, 64, 256
LENGTHS = (512, 1024, 2048, 4096, 8192, 16_384, 32_768)
CHUNK, ROUNDS = 64, 4  # of LSH attention
LONGEST_MASKED = 8192  # the mask of the next length takes a gigabyte
FULL, MASKED = "full SDPA", "masked SDPA"
KINDS = ("blockwise", "ring", "window", "window, two-sided", "sparse", "fixed", "block", "adaptive_span")
KINDS = (*KINDS, "linformer", "lsh")
PEERS = {
    "local-attention": "local_attention",
    "Hugging Face Longformer": "transformers",
    "Hugging Face Reformer": "transformers",
}
TOYS = ("local-attention", "regard window")
SYSTEMS = (FULL, MASKED, *PEERS, *(f"regard {kind}" for kind in KINDS))


def peer(system: str, length: int) -> Callable[..., object]:
    """(q, k, v) → out. The modules of `transformers` are given them in the place of their projections."""
    size = HEADS * SIZE
    if system == "local-attention":
        from local_attention import LocalAttention

        return LocalAttention(WINDOW, causal=True, exact_windowsize=True, use_rotary_pos_emb=False, autopad=True)
    from transformers import LongformerConfig, ReformerConfig

    if system == "Hugging Face Longformer":
        from transformers.models.longformer.modeling_longformer import LongformerSelfAttention

        longformer = LongformerConfig(attention_window=[2 * WINDOW], hidden_size=size, num_attention_heads=HEADS)
        longformer.attention_probs_dropout_prob = 0.0
        made = LongformerSelfAttention(longformer, 0).eval()
        names = ("query", "key", "value")
    else:
        from transformers.models.reformer.modeling_reformer import LSHSelfAttention

        reformer = ReformerConfig(hidden_size=size, num_attention_heads=HEADS, attention_head_size=SIZE)
        reformer.lsh_attn_chunk_length, reformer.num_hashes, reformer.num_buckets = CHUNK, ROUNDS, 2 * length // CHUNK
        made = LSHSelfAttention(reformer).eval()
        names = ("query_key", "value")
    for name in names:
        delattr(made, name)

    def heads(out_BLD: Tensor) -> Tensor:
        return out_BLD.unflatten(2, (HEADS, SIZE)).transpose(1, 2)

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        first = (2, 0, 1, 3) if "key" in names else (0, 2, 1, 3)  # Longformer's has the length first
        for name, x in zip(names, (q, k, v) if "key" in names else (q, v), strict=True):
            projected = x.permute(first).flatten(2)
            setattr(made, name, lambda _, projected=projected: projected)
        hidden = q.transpose(1, 2).flatten(2)
        if "key" not in names:
            return heads(made(hidden).hidden_states) + 0 * k  # keys are queries
        seen = hidden.new_zeros(1, length)
        return heads(made(hidden, seen, is_index_masked=seen < 0, is_index_global_attn=seen < 0)[0])

    return attend


def attention(system: str, length: int) -> Callable[..., object]:
    """(q, k, v) → out"""
    import torch
    import torch.nn.functional as F

    from regard.config import attention as config
    from regard.core.attention.build import build_attention
    from regard.core.attention.lsh import normalised
    from regard.core.masks import CausalMask

    if system == FULL:
        return lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True)
    if system == MASKED:
        offset = torch.arange(length)[:, None] - torch.arange(length)
        mask = (offset >= 0) & (offset <= WINDOW)
        return lambda q, k, v: F.scaled_dot_product_attention(q, k, v, mask)
    if system in PEERS:
        return peer(system, length)
    n_blocks = max(length // (2 * WINDOW), 1)
    configs = {
        "blockwise": config.BlockwiseAttentionConfig(),
        "ring": config.RingAttentionConfig(),
        "window": config.WindowAttentionConfig(window=(WINDOW,)),
        "window, two-sided": config.WindowAttentionConfig(window=(WINDOW,)),
        "sparse": config.SparseAttentionConfig(stride=WINDOW // 2),
        "fixed": config.SparseAttentionConfig(("fixed",), stride=WINDOW // 2),
        "block": config.BlockAttentionConfig(length, n_blocks, (0, min(1, n_blocks - 1))),
        "adaptive_span": config.AdaptiveSpanConfig(max_span=WINDOW, initial_span=WINDOW // 2),
        "linformer": config.LinformerConfig(length, WINDOW),
        "lsh": config.LshAttentionConfig(max(2 * length // CHUNK, 2), CHUNK, ROUNDS),
    }
    chosen = configs[system.removeprefix("regard ")]
    is_causal = "decoder" in chosen.roles and not system.endswith("two-sided")
    made = build_attention(chosen, HEADS * SIZE, HEADS, "decoder" if is_causal else "encoder")
    for parameter in made.parameters():
        torch.nn.init.uniform_(parameter, 0.0, length**-0.5)
    causal = CausalMask(length, length) if is_causal else None
    if system == "regard lsh":  # its keys are queries
        return lambda q, k, v: made.mix(q, normalised(q) + 0 * k, v, causal, None)  # type: ignore[union-attr, arg-type]
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
    parser.add_argument("--lengths", type=int, nargs="+", metavar="N", help="these lengths only")
    parser.add_argument("--only", nargs="+", metavar="SYSTEM", help="these systems only; the base is always there")
    args = parser.parse_args(argv)
    if args.alone:
        return run_alone(args.alone, args.lengths, args.cpu_time)
    report = Report()
    lengths = (512, 1024) if args.toy else args.lengths or [length for length in LENGTHS if length <= args.most]
    chosen = (FULL, *(args.only or (TOYS if args.toy else SYSTEMS)))
    if unknown := set(chosen) - set(SYSTEMS):
        raise SystemExit(f"--only {' '.join(sorted(unknown))}: the systems are {', '.join(SYSTEMS)}")
    systems = [system for system in SYSTEMS if system in chosen]
    for system in [system for system in systems if system in PEERS and missing(PEERS[system])]:
        systems.remove(system)
        report.leave_out(system, str(missing(PEERS[system])))
    started = time.perf_counter()
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
        for system, values in medians.items() if len(lengths) > 1 else ():
            long = {length: value for length, value in values.items() if length >= 2048} or values
            report.note(f"{what} of {system} grows as length to the power of {exponent(long):.2f}")
    report.note(f"all of it took {(time.perf_counter() - started) / 60:.1f} minutes")
    report.write(args.json)


if __name__ == "__main__":
    main()
