"""Learned spans by layer, and the work that they save at equal loss (Sukhbaatar et al. 2019, figures 2 and 3).

    python bench/long_context/learned_spans.py

GPT with four layers on tiny Shakespeare by characters. "fixed" has every span at its maximum and learns none; the
others differ in the price of a span. Work is the pairs that are seen, as a share of those of "fixed".
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from corpora import draw, next_token, shakespeare
from experiment import Experiment, Figures, options
from training import Batch, build, evaluate, train

from regard.config import AdaptiveSpanConfig, AttentionConfig, GptConfig, WindowAttentionConfig
from regard.core.attention.adaptive_span import spans
from regard.data.synthetic import FIRST

ROWS, STEPS, LENGTH, RAMP = 16, 300, 256, 16
PRICES = {"price 2e-5": 2e-5, "price 2e-4": 2e-4, "price 2e-3": 2e-3}


def main(argv: Sequence[str] | None = None) -> None:
    parser = options(__doc__)
    parser.add_argument("--lr", type=float, default=3e-3)
    args = parser.parse_args(argv)
    steps = args.steps or (2 if args.toy else STEPS)
    corpus = shakespeare(args.toy)
    attentions: dict[str, AttentionConfig] = {"fixed": WindowAttentionConfig(window=(LENGTH,))}
    for name, price in PRICES.items():
        attentions[name] = AdaptiveSpanConfig(LENGTH, initial_span=LENGTH // 4, ramp=RAMP, span_loss=price)
    shape = {"d_model": 64, "d_ff": 256, "n_heads": 4, "n_layers": 4, "dropout": 0.0, "attention_dropout": 0.0}

    def batch(ids: object, seed: Sequence[int]) -> Batch:
        return next_token(draw(ids, ROWS, LENGTH, seed))  # type: ignore[arg-type]

    def run(setting: str, seed: int) -> Figures:
        size = {"max_positions": LENGTH, "vocab_size": corpus.n_symbols + FIRST}
        model = build(GptConfig(attention=attentions[setting], **shape, **size), seed)
        train(model, lambda step: batch(corpus.train, (seed, step)), steps, args.lr)
        loss, _ = evaluate(model, [batch(corpus.valid, (0, n)) for n in range(2 if args.toy else 12)])
        layers = list(spans(model).values()) or [(float(LENGTH),) * 4] * 4
        found = {"bits": loss / math.log(2), "work": work([span for layer in layers for span in layer])}
        return found | {f"layer {i + 1}": sum(layer) / len(layer) for i, layer in enumerate(layers)}

    Experiment("learned_spans", list(attentions), "fixed", {"steps": steps, "lr": args.lr}).conduct(run, args)


def work(of_heads: Sequence[float]) -> float:
    """The pairs whose weight is not 0 by their distance."""
    ages = torch.arange(1, LENGTH + 1)
    seen = [float(ages.clamp(max=min(span + RAMP, LENGTH)).sum() / ages.sum()) for span in of_heads]
    return sum(seen) / len(seen)


if __name__ == "__main__":
    main()
