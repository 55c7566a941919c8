"""Linformer's perplexity by k at n = 512 (Wang et al. 2020, figure 3): masked tokens of BERT.

    python bench/long_context/linformer_k.py

Tiny Shakespeare by characters, 15 % of them masked, two layers. The paper's model reads word pieces and is far larger.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from corpora import draw, masked, shakespeare
from experiment import Experiment, Figures, Size, options, size_of
from training import Batch, build, evaluate, train

from regard.config import AttentionConfig, BertConfig, FullAttention, LinformerConfig
from regard.data.synthetic import FIRST

SIZES = {
    "full": Size(length=512, rows=8, steps=500, lr=2e-3, evaluation=24),
    "small": Size(length=512, rows=4, steps=400, lr=5e-3, evaluation=12, d_model=32),
    "toy": Size(length=512, rows=1, steps=2, lr=2e-3, evaluation=1),
}
PROJECTED = (32, 64, 128, 256)


def main(argv: Sequence[str] | None = None) -> None:
    args = options(__doc__).parse_args(argv)
    size = size_of(args, SIZES)
    corpus = shakespeare(args.size == "toy")
    attentions: dict[str, AttentionConfig] = {"full": FullAttention()}
    attentions |= {f"k = {k}": LinformerConfig(size.length, k) for k in PROJECTED}

    def batch(ids: object, seed: Sequence[int]) -> Batch:
        return masked(draw(ids, size.rows, size.length, seed), seed)  # type: ignore[arg-type]

    def run(setting: str, seed: int) -> Figures:
        shape = {"vocab_size": corpus.n_symbols + FIRST, **size.shape(n_layers=2)}
        model = build(BertConfig(attention=attentions[setting], heads=("masked",), **shape), seed)
        train(model, lambda step: batch(corpus.train, (seed, step)), size.steps, size.lr)
        loss, accuracy = evaluate(model, [batch(corpus.valid, (0, n)) for n in range(size.evaluation)])
        return {"loss": loss, "perplexity": math.exp(loss), "accuracy": accuracy}

    Experiment("linformer_k", list(attentions), "full", size).conduct(run, args)


if __name__ == "__main__":
    main()
