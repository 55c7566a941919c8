"""Windows that grow with depth, against equal and shrinking ones (Longformer: Beltagy et al. 2020, table 4).

    python bench/long_context/window_sizes.py

GPT with four layers on tiny Shakespeare by characters. All settings see as many pairs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from corpora import draw, next_token, shakespeare
from experiment import Experiment, Figures, options
from training import Batch, build, evaluate, train

from regard.config import GptConfig, WindowAttentionConfig
from regard.data.synthetic import FIRST

ROWS, STEPS, LENGTH = 16, 300, 256
WINDOWS = {"growing": (8, 16, 32, 64), "fixed": (30,), "shrinking": (64, 32, 16, 8)}


def main(argv: Sequence[str] | None = None) -> None:
    parser = options(__doc__)
    parser.add_argument("--lr", type=float, default=3e-3)
    args = parser.parse_args(argv)
    steps = args.steps or (2 if args.toy else STEPS)
    corpus = shakespeare(args.toy)
    shape = {"d_model": 64, "d_ff": 256, "n_heads": 4, "n_layers": 4, "dropout": 0.0, "attention_dropout": 0.0}

    def batch(ids: object, seed: Sequence[int]) -> Batch:
        return next_token(draw(ids, ROWS, LENGTH, seed))  # type: ignore[arg-type]

    def run(setting: str, seed: int) -> Figures:
        size = {"max_positions": LENGTH, "vocab_size": corpus.n_symbols + FIRST}
        model = build(GptConfig(attention=WindowAttentionConfig(window=WINDOWS[setting]), **shape, **size), seed)
        train(model, lambda step: batch(corpus.train, (seed, step)), steps, args.lr)
        loss, accuracy = evaluate(model, [batch(corpus.valid, (0, n)) for n in range(2 if args.toy else 12)])
        return {"bits": loss / math.log(2), "accuracy": accuracy}

    determinants = {"length": LENGTH, "steps": steps, "lr": args.lr}
    Experiment("window_sizes", list(WINDOWS), "fixed", determinants).conduct(run, args)


if __name__ == "__main__":
    main()
