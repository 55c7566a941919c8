"""Recurrent models and the Transformer at the same training budget: BLEU, BLEU by source length, training speed.

    M=recipes/multi30k-en-de
    regard train $M-lstm.toml --run runs/ancestors/rnn --set model.cell=rnn …
    regard train $M-lstm.toml --run runs/ancestors/lstm …
    regard train $M-bahdanau.toml --run runs/ancestors/bahdanau …
    regard train $M.toml --run runs/ancestors/transformer …
    python bench/recurrent_comparison.py runs/ancestors --split test --plot docs/pictures/ancestors.svg

The five bins have equal numbers of sentences. BLEU is lower-cased, beam 5, each model's own settings.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.config.recipe import load_recipe
from regard.data.corpus import read_pairs
from regard.evaluation.scores import measure
from regard.pipelines.model_translator import ModelTranslator

MODELS = {
    "rnn": "RNN",
    "lstm": "LSTM",
    "bahdanau": "LSTM, Bahdanau's attention",
    "transformer": "Transformer",
}
BINS = 5


@dataclass(frozen=True)
class Result:
    name: str
    bleu: float
    by_length: list[float]
    tokens_per_second: float
    minutes: float
    steps: int


def cut(lengths: Sequence[int]) -> list[list[int]]:
    """Indices of the sentences, shortest first, in bins of equal size."""
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    edges = [round(i * len(order) / BINS) for i in range(BINS + 1)]
    return [order[low:high] for low, high in itertools.pairwise(edges)]


def evaluate_run(run: Path, name: str, pairs: Sequence[tuple[str, str]], bins: list[list[int]]) -> Result:
    model = ModelTranslator(run / "model", "float32")
    translations = [one.text for one in model.translate([source for source, _ in pairs], beam=5)]

    def bleu(indices: Sequence[int]) -> float:
        outputs, references = [translations[i] for i in indices], [pairs[i][1] for i in indices]
        return measure(outputs, references, "de", lowercase=True)[0].score

    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text("utf-8").splitlines()]
    steps = [row for row in rows if row["kind"] == "step"]
    speed = statistics.median(row["tokens_per_second"] for row in steps)
    last = steps[-1]
    return Result(name, bleu(range(len(pairs))), [*map(bleu, bins)], speed, last["seconds"] / 60, last["step"])


def draw(results: Sequence[Result], labels: Sequence[str], path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    for result in results:
        axes.plot(labels, result.by_length, marker="o", label=result.name)
    axes.set(xlabel="words in the source", ylabel="BLEU (lower-cased)", ylim=(0, None))
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    figure.savefig(path)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, help="the folder of the four runs")
    parser.add_argument("--recipe", type=Path, default=Path("recipes/multi30k-en-de.toml"))
    parser.add_argument("--split", choices=("valid", "test"), default="valid")
    parser.add_argument("--plot", type=Path)
    args = parser.parse_args(argv)
    corpora = getattr(load_recipe(args.recipe).data, args.split)
    pairs = [(pair.src, pair.tgt) for corpus in corpora for pair in read_pairs(corpus)]
    lengths = [len(source.split()) for source, _ in pairs]
    bins = cut(lengths)
    labels = [f"{min(lengths[i] for i in indices)} to {max(lengths[i] for i in indices)}" for indices in bins]
    print("| | BLEU | " + " | ".join(f"{label} words" for label in labels) + " | tokens/s | minutes | steps |")
    print("|---|" + "---:|" * (BINS + 4))
    results = []
    for folder, name in MODELS.items():
        found = evaluate_run(args.runs / folder, name, pairs, bins)
        results.append(found)
        scores = " | ".join(f"{score:.2f}" for score in [found.bleu, *found.by_length])
        print(f"| {name} | {scores} | {found.tokens_per_second:,.0f} | {found.minutes:.1f} | {found.steps:,} |")
    if args.plot:
        draw(results, labels, args.plot)


if __name__ == "__main__":
    main()
