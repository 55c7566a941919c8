"""Windows that grow with depth, against equal and shrinking ones (Longformer: Beltagy et al. 2020, table 4).

    python bench/long_context/window_sizes.py

GPT with four layers on tiny Shakespeare by characters. All settings see as many pairs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from corpora import draw, next_token, shakespeare
from experiment import Experiment, Figures, Size, options, size_of
from training import Batch, build, evaluate, train

from regard.config import GptConfig, WindowAttentionConfig
from regard.data.synthetic import FIRST

WINDOWS = {"growing": (1, 2, 4, 8), "fixed": (15 / 4,), "shrinking": (8, 4, 2, 1)}  # in 32nds of the length
SIZES = {
    "full": Size(length=256, rows=16, steps=300, lr=3e-3, evaluation=12),
    "small": Size(length=128, rows=8, steps=100, lr=5e-3, evaluation=4, d_model=32),
    "toy": Size(length=32, rows=2, steps=2, lr=3e-3, evaluation=1),
}


def main(argv: Sequence[str] | None = None) -> None:
    args = options(__doc__).parse_args(argv)
    size = size_of(args, SIZES)
    corpus = shakespeare(args.size == "toy")

    def batch(ids: object, seed: Sequence[int]) -> Batch:
        return next_token(draw(ids, size.rows, size.length, seed))  # type: ignore[arg-type]

    def run(setting: str, seed: int) -> Figures:
        window = tuple(max(round(part * size.length / 32), 1) for part in WINDOWS[setting])
        shape = {"vocab_size": corpus.n_symbols + FIRST, **size.shape(n_layers=4)}
        model = build(GptConfig(attention=WindowAttentionConfig(window=window), **shape), seed)
        train(model, lambda step: batch(corpus.train, (seed, step)), size.steps, size.lr)
        loss, accuracy = evaluate(model, [batch(corpus.valid, (0, n)) for n in range(size.evaluation)])
        return {"bits": loss / math.log(2), "accuracy": accuracy}

    Experiment("window_sizes", list(WINDOWS), "fixed", size).conduct(run, args)


if __name__ == "__main__":
    main()
