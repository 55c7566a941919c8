"""The duplication task of Reformer (Kitaev et al. 2020, table 2): trained with one attention, evaluated with all.

    python bench/long_context/duplication.py

A text is 0 w 0 w; asked is the second w. One layer. "full" is LSH attention with one bucket: shared queries and keys,
a token never sees itself. A row of the table is what the model was trained with, a column what it is evaluated with;
the first figure, and the paired difference, are of evaluation with what it was trained with. Sizes are smaller than
the paper's: its texts have 1,024 tokens.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from experiment import Experiment, Figures, options
from torch import nn
from training import Batch, build, evaluate, train

from regard.config import GptConfig, LshAttentionConfig
from regard.core.attention.lsh import LshAttention
from regard.data.synthetic import FIRST, duplicate

VOCABULARY, ROWS, STEPS = 32, 64, 600
ROUNDS = (8, 4, 2, 1)
TRAINED = {"full": 0, "LSH-4": 4, "LSH-2": 2, "LSH-1": 1}  # rounds of hashing, 0: one bucket


def config(length: int, n_rounds: int) -> GptConfig:
    chunk = length // 16
    attention = LshAttentionConfig(
        n_buckets=2 * length // chunk if n_rounds else 1, chunk=chunk if n_rounds else length, n_rounds=n_rounds or 1
    )
    shape = {"d_model": 64, "d_ff": 128, "n_heads": 4, "n_layers": 1, "dropout": 0.0, "attention_dropout": 0.0}
    return GptConfig(attention=attention, max_positions=length, vocab_size=VOCABULARY + FIRST, **shape)


def evaluate_with(model: nn.Module, other: GptConfig, rounds: int) -> None:
    """From now on this model evaluates with the attention of another."""
    attention = other.attention
    assert isinstance(attention, LshAttentionConfig)
    for module in model.modules():
        if isinstance(module, LshAttention):
            module.n_buckets, module.chunk, module.evaluation_rounds = attention.n_buckets, attention.chunk, rounds or 1
            module.fixed_rotations = None


def main(argv: Sequence[str] | None = None) -> None:
    parser = options(__doc__)
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--lr", type=float, default=3e-3)
    args = parser.parse_args(argv)
    steps = args.steps or (2 if args.toy else STEPS)

    def draw(seed: Sequence[int]) -> Batch:
        examples = duplicate(np.random.default_rng(seed), ROWS, args.length, VOCABULARY)
        return torch.from_numpy(examples.ids_BL), torch.from_numpy(examples.targets_BL)

    def run(setting: str, seed: int) -> Figures:
        model = build(config(args.length, TRAINED[setting]), seed)
        train(model, lambda step: draw((seed, step)), steps, args.lr)
        batches = [draw((0, number)) for number in range(1 if args.toy else 8)]
        found = {}
        for rounds in (0, *ROUNDS):
            evaluate_with(model, config(args.length, rounds), rounds)
            found[f"LSH-{rounds}" if rounds else "full"] = 100 * evaluate(model, batches)[1]
        return {"own": found[setting], **found}

    size = {"length": args.length, "steps": steps, "lr": args.lr}
    Experiment("duplication", list(TRAINED), "full", size).conduct(run, args)


if __name__ == "__main__":
    main()
