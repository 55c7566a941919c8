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
from experiment import Experiment, Figures, Size, options, size_of
from torch import nn
from training import Batch, build, evaluate, train

from regard.config import GptConfig, LshAttentionConfig
from regard.core.attention.lsh import LshAttention
from regard.data.synthetic import FIRST, duplicate

SIZES = {
    "full": Size(length=64, rows=64, steps=600, lr=3e-3, evaluation=8, symbols=32),
    "small": Size(length=32, rows=32, steps=200, lr=3e-3, evaluation=4, symbols=32),
    "toy": Size(length=32, rows=4, steps=2, lr=3e-3, evaluation=1, symbols=32),
}
ROUNDS = (8, 4, 2, 1)
TRAINED = {"full": 0, "LSH-4": 4, "LSH-2": 2, "LSH-1": 1}  # rounds of hashing, 0: one bucket


def config(size: Size, n_rounds: int) -> GptConfig:
    length, chunk = size.length, size.length // 16
    attention = LshAttentionConfig(
        n_buckets=2 * length // chunk if n_rounds else 1, chunk=chunk if n_rounds else length, n_rounds=n_rounds or 1
    )
    return GptConfig(attention=attention, vocab_size=size.symbols + FIRST, **size.shape(n_layers=1))


def evaluate_with(model: nn.Module, other: GptConfig, rounds: int) -> None:
    """From now on this model evaluates with the attention of another."""
    attention = other.attention
    assert isinstance(attention, LshAttentionConfig)
    for module in model.modules():
        if isinstance(module, LshAttention):
            module.n_buckets, module.chunk, module.evaluation_rounds = attention.n_buckets, attention.chunk, rounds or 1
            module.fixed_rotations = None


def main(argv: Sequence[str] | None = None) -> None:
    args = options(__doc__).parse_args(argv)
    size = size_of(args, SIZES)

    def draw(seed: Sequence[int]) -> Batch:
        examples = duplicate(np.random.default_rng(seed), size.rows, size.length, size.symbols)
        return torch.from_numpy(examples.ids_BL), torch.from_numpy(examples.targets_BL)

    def run(setting: str, seed: int) -> Figures:
        model = build(config(size, TRAINED[setting]), seed)
        train(model, lambda step: draw((seed, step)), size.steps, size.lr)
        batches = [draw((0, number)) for number in range(size.evaluation)]
        found = {}
        for rounds in (0, *ROUNDS):
            evaluate_with(model, config(size, rounds), rounds)
            found[f"LSH-{rounds}" if rounds else "full"] = 100 * evaluate(model, batches)[1]
        return {"own": found[setting], **found}

    Experiment("duplication", list(TRAINED), "full", size).conduct(run, args)


if __name__ == "__main__":
    main()
