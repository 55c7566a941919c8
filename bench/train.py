"""Training speed, compared with nn.Transformer, Hugging Face Marian, Eole, OpenNMT-py and JoeyNMT.

    python bench/train.py                      # small and base, five interleaved repeats
    python bench/train.py --size small --repeats 7 --json train.json

Same sizes, batches, dropouts, label-smoothed loss and fused Adam; bf16 is PyTorch's autocast for the peers. Each
repeat takes one step of every system on the same batch, in turn, so that noise affects all of them. The
score is real target tokens per second. The share of the machine is that of a step's useful operations at the rate of
its best bf16 matrix product (hardware.py; float32 where it has no bf16 units), measured in the same turns.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import hardware
import numpy as np
import torch
from interleaved import Work, rates_in_turn
from peers import TRAINERS, missing
from report import Comparison, Report, options
from training_steps import NAMES, Step, dtypes, peer_step, precisions, regard_step
from workloads import config_of, make_batches

from regard.config import TransformerConfig
from regard.data.batches import Batch
from regard.kernels.memory import keep_freed_memory
from regard.models.transformer import Transformer
from regard.tokenizers.special_ids import PAD


def make_systems(config: TransformerConfig, report: Report) -> dict[str, Step]:
    systems: dict[str, Step] = {}
    for name, (module, build) in TRAINERS.items():
        reason = missing(module)
        if reason is not None:
            report.leave_out(name, reason)
            continue
        for dtype in dtypes():
            systems[f"{name} {NAMES[dtype]}"] = peer_step(build(config), dtype)
    return systems | {f"regard {name}": regard_step(Transformer(config), name) for name in precisions()}


def over(batches: Sequence[Batch], step: Step) -> Work:
    """The step on the next of the batches, each time; what it did is the real target tokens."""
    queue = iter(batches)

    def work() -> float:
        batch = next(queue)
        step(batch)
        return float(batch.n_tokens)

    return work


def useful_operations(config: TransformerConfig, batch: Batch) -> float:
    """Of a step without padding: 6 a matrix parameter and token that meets it, and the attention's own products.

    Two operations (multiply, add) forwards and four backwards. Embeddings are looked up, the output is multiplied.
    """
    d, d_ff = config.d_model, config.d_ff
    src_B, tgt_B = np.count_nonzero(batch.src != PAD, axis=1), np.count_nonzero(batch.tgt_out != PAD, axis=1)
    per_src = config.n_encoder_layers * (4 * d * d + 2 * d * d_ff) + config.n_decoder_layers * 2 * d * d
    per_tgt = config.n_decoder_layers * (6 * d * d + 2 * d * d_ff) + d * config.tgt_vocab_size
    pairs = config.n_encoder_layers * src_B**2 + config.n_decoder_layers * (tgt_B * (tgt_B + 1) / 2 + tgt_B * src_B)
    return float(6 * (per_src * src_B.sum() + per_tgt * tgt_B.sum() + 2 * d * pairs.sum()))


def compare(size: str, repeats: int, report: Report) -> None:
    torch.manual_seed(1)
    config = config_of(size)
    batches = make_batches(repeats + 1, size)
    works = {name: over(batches, step) for name, step in make_systems(config, report).items()}
    shapes, enough = (hardware.TOY, 1.0) if size == "toy" else (hardware.LARGE, hardware.ENOUGH)
    products = {hardware.name_of(shape): hardware.product(dtypes()[-1], shape, enough) for shape in shapes}
    rates = rates_in_turn(works | products, repeats)
    best = max(statistics.median(rates[name]) for name in products)
    speeds = {name: rates[name] for name in works}
    report.add(Comparison(f"train {size}", "target tokens/s", speeds, "nn.Transformer float32"))
    costs = [useful_operations(config, batch) / batch.n_tokens for batch in batches[1:]]
    shares = {
        name: [100 * speed * cost / best for speed, cost in zip(values, costs, strict=True)]
        for name, values in speeds.items()
    }
    what = f"train {size}, useful work"
    report.add(Comparison(what, f"% of {best / 1e9:,.0f} GFLOP/s", shares, "nn.Transformer float32"))


def main(argv: Sequence[str] | None = None) -> None:
    parser = options(__doc__)
    parser.add_argument("--size", choices=["small", "base", "both"], default="both")
    args = parser.parse_args(argv)
    keep_freed_memory(products=1024)  # of all the systems; the comparison is of their steps, not of the allocator
    report = Report()
    sizes = ("toy",) if args.toy else ("small", "base") if args.size == "both" else (args.size,)
    for size in sizes:
        compare(size, args.repeats, report)
    report.write(args.json)


if __name__ == "__main__":
    main()
