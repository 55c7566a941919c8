"""Time of a training step for growing sentences, batches, models and vocabularies, compared with nn.Transformer.

    python bench/scaling.py

One size is varied at a time, starting from `small` (d_model 256, 4,096 tokens in sentences of 24, vocabulary 10,000).
Each system uses its fastest precision on this machine: the peer bf16 or float32, Regard the default of `regard train`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from interleaved import seconds_in_turn
from peers import TorchTransformer
from report import Comparison, Report, options
from training_steps import NAMES, chosen, dtypes, peer_step, regard_step
from workloads import BATCH_TOKENS, TOY_BATCH_TOKENS, config_of, make_batch

from regard.config import TransformerConfig
from regard.kernels.memory import keep_freed_memory
from regard.models.transformer import Transformer

LENGTH = 24
LENGTHS = (8, 16, 32, 64, 128, 256, 512, 1024)
BATCHES = (256, 1024, 4096, 16_384)
WIDTHS = (128, 256, 512, 1024)
VOCABULARIES = (1_000, 4_000, 16_000, 64_000)


@dataclass(frozen=True)
class Point:
    what: str
    config: TransformerConfig
    length: int = LENGTH
    tokens: int = BATCH_TOKENS  # padded, of either side


def points() -> Iterator[Point]:
    middle = config_of("small")
    for length in LENGTHS:
        yield Point(f"scaling, sentences of {length}", middle, length=length)
    for tokens in BATCHES:
        yield Point(f"scaling, batch of {tokens:,} tokens", middle, tokens=tokens)
    for width in WIDTHS:
        wider = dataclasses.replace(middle, d_model=width, d_ff=4 * width, n_heads=width // 64)
        yield Point(f"scaling, d_model {width}", wider)
    for size in VOCABULARIES:
        yield Point(
            f"scaling, vocabulary {size:,}", dataclasses.replace(middle, src_vocab_size=size, tgt_vocab_size=size)
        )


def toy_points() -> Iterator[Point]:
    for length in (4, 8):
        yield Point(f"scaling, sentences of {length}", config_of("toy"), length, TOY_BATCH_TOKENS)


def compare(point: Point, repeats: int) -> Comparison:
    torch.manual_seed(1)
    rng, config = np.random.default_rng(1), point.config
    rows = max(1, point.tokens // point.length)
    batch = make_batch(rng, rows, point.length, point.length, config.tgt_vocab_size)
    dtype = dtypes()[-1]
    peer, own = peer_step(TorchTransformer(config), dtype), regard_step(Transformer(config), chosen())
    works = {f"nn.Transformer {NAMES[dtype]}": lambda: peer(batch), f"regard {chosen()}": lambda: own(batch)}
    seconds = seconds_in_turn(works, repeats)
    figures = {name: [1e6 * value / batch.n_tokens for value in values] for name, values in seconds.items()}
    return Comparison(point.what, "µs per target token", figures, next(iter(works)), less_is_better=True)


def main(argv: Sequence[str] | None = None) -> None:
    args = options(__doc__).parse_args(argv)
    keep_freed_memory()  # for both
    report = Report()
    for point in toy_points() if args.toy else points():
        report.add(compare(point, args.repeats))
    report.write(args.json)


if __name__ == "__main__":
    main()
