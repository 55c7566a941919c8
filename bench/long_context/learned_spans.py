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
from experiment import Experiment, Figures, Size, options, size_of
from training import Batch, build, evaluate, train

from regard.config import AdaptiveSpanConfig, AttentionConfig, GptConfig, WindowAttentionConfig
from regard.core.attention.adaptive_span import spans
from regard.data.synthetic import FIRST

SIZES = {
    "full": Size(length=256, rows=16, steps=300, lr=3e-3, evaluation=12),
    "small": Size(length=64, rows=8, steps=100, lr=5e-3, evaluation=4, d_model=32),
    "toy": Size(length=32, rows=2, steps=2, lr=3e-3, evaluation=1),
}
PRICES = {"price 2e-5": 2e-5, "price 2e-4": 2e-4, "price 2e-3": 2e-3}


def main(argv: Sequence[str] | None = None) -> None:
    args = options(__doc__).parse_args(argv)
    size = size_of(args, SIZES)
    corpus, longest, ramp = shakespeare(args.size == "toy"), size.length, size.length // 16
    attentions: dict[str, AttentionConfig] = {"fixed": WindowAttentionConfig(window=(longest,))}
    for name, price in PRICES.items():
        attentions[name] = AdaptiveSpanConfig(longest, initial_span=longest // 4, ramp=ramp, span_loss=price)

    def batch(ids: object, seed: Sequence[int]) -> Batch:
        return next_token(draw(ids, size.rows, size.length, seed))  # type: ignore[arg-type]

    def run(setting: str, seed: int) -> Figures:
        shape = {"vocab_size": corpus.n_symbols + FIRST, **size.shape(n_layers=4)}
        model = build(GptConfig(attention=attentions[setting], **shape), seed)
        train(model, lambda step: batch(corpus.train, (seed, step)), size.steps, size.lr)
        loss, _ = evaluate(model, [batch(corpus.valid, (0, n)) for n in range(size.evaluation)])
        layers = list(spans(model).values()) or [(float(longest),) * 4] * 4
        found = {"bits": loss / math.log(2), "work": work([span + ramp for layer in layers for span in layer], longest)}
        return found | {f"layer {i + 1}": sum(layer) / len(layer) for i, layer in enumerate(layers)}

    Experiment("learned_spans", list(attentions), "fixed", size).conduct(run, args)


def work(reaches: Sequence[float], longest: int) -> float:
    """The pairs whose weight is not 0 by their distance; a reach per head."""
    ages = torch.arange(1, longest + 1)
    seen = [float(ages.clamp(max=min(reach, longest)).sum() / ages.sum()) for reach in reaches]
    return sum(seen) / len(seen)


if __name__ == "__main__":
    main()
