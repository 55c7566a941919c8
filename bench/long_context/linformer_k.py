"""Linformer's perplexity by k at n = 512 (Wang et al. 2020, figure 3): masked tokens of BERT.

    python bench/long_context/linformer_k.py

Tiny Shakespeare by characters, 15 % of them masked, two layers. The paper's model reads word pieces and is far larger.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from corpora import draw, masked, shakespeare
from experiment import Experiment, Figures, options
from training import Batch, build, evaluate, train

from regard.config import AttentionConfig, BertConfig, FullAttention, LinformerConfig
from regard.data.synthetic import FIRST

ROWS, STEPS, LENGTH = 8, 500, 512
PROJECTED = (32, 64, 128, 256)


def main(argv: Sequence[str] | None = None) -> None:
    parser = options(__doc__)
    parser.add_argument("--lr", type=float, default=2e-3)
    args = parser.parse_args(argv)
    steps = args.steps or (2 if args.toy else STEPS)
    corpus, length = shakespeare(args.toy), 64 if args.toy else LENGTH
    attentions: dict[str, AttentionConfig] = {"full": FullAttention()}
    attentions |= {f"k = {k}": LinformerConfig(LENGTH, k) for k in PROJECTED}
    shape = {"d_model": 64, "d_ff": 256, "n_heads": 4, "n_layers": 2, "dropout": 0.0, "attention_dropout": 0.0}

    def batch(ids: object, seed: Sequence[int]) -> Batch:
        return masked(draw(ids, ROWS, length, seed), seed)  # type: ignore[arg-type]

    def run(setting: str, seed: int) -> Figures:
        size = {"max_positions": LENGTH, "vocab_size": corpus.n_symbols + FIRST, "heads": ("masked",)}
        model = build(BertConfig(attention=attentions[setting], **shape, **size), seed)
        train(model, lambda step: batch(corpus.train, (seed, step)), steps, args.lr)
        loss, accuracy = evaluate(model, [batch(corpus.valid, (0, n)) for n in range(2 if args.toy else 24)])
        return {"loss": loss, "perplexity": math.exp(loss), "accuracy": accuracy}

    Experiment("linformer_k", list(attentions), "full", {"steps": steps, "lr": args.lr}).conduct(run, args)


if __name__ == "__main__":
    main()
