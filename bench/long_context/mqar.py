"""Multi-query associative recall with every kind of attention: which can look up a value by its key?

    python bench/long_context/mqar.py                          # length 64, 4 pairs
    python bench/long_context/mqar.py --length 128 --pairs 8
    python bench/long_context/mqar.py --length 256 --pairs 16

Pairs of a key and a value stand first, then the keys again among random symbols; asked is the value of each key. 8,192
symbols. Two layers; GPT, and BERT for the kinds that are of encoders only, each beside full attention. Windows, strides
and blocks are a quarter of the length, so that no kind sees everything at once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from experiment import Experiment, Figures, Size, options, size_of
from training import Batch, build, evaluate, train

from regard.config import BertConfig, FamilyConfig, GptConfig
from regard.config import attention as kinds
from regard.data.synthetic import FIRST, recall

SIZES = {
    "full": Size(length=64, rows=64, steps=800, lr=3e-3, evaluation=16, symbols=8192, pairs=4),
    "small": Size(length=32, rows=32, steps=500, lr=3e-3, evaluation=8, symbols=64, pairs=4),
    "toy": Size(length=32, rows=2, steps=2, lr=3e-3, evaluation=1, symbols=64, pairs=4),
}


def settings(size: Size) -> dict[str, FamilyConfig]:
    length, quarter = size.length, size.length // 4
    decoders = {
        "full": kinds.FullAttention(),
        "blockwise": kinds.BlockwiseAttentionConfig(block=quarter),
        "window": kinds.WindowAttentionConfig(window=(quarter,)),
        "sparse": kinds.SparseAttentionConfig(stride=quarter // 2),
        "fixed": kinds.SparseAttentionConfig(("fixed",), stride=quarter, summary_columns=quarter // 8),
        "lsh": kinds.LshAttentionConfig(chunk=quarter // 2, n_rounds=2),
        "adaptive_span": kinds.AdaptiveSpanConfig(max_span=length, ramp=quarter // 2, initial_span=quarter),
    }
    encoders = {
        "full, encoder": kinds.FullAttention(),
        "block": kinds.BlockAttentionConfig(length, n_blocks=4, shifts=(0, 1, 2, 3)),
        "linformer": kinds.LinformerConfig(length, quarter),
    }
    shape = {"vocab_size": size.symbols + FIRST, **size.shape(n_layers=2)}
    found: dict[str, FamilyConfig] = {name: GptConfig(attention=kind, **shape) for name, kind in decoders.items()}
    return found | {name: BertConfig(attention=kind, heads=("masked",), **shape) for name, kind in encoders.items()}


def main(argv: Sequence[str] | None = None) -> None:
    parser = options(__doc__)
    parser.add_argument("--pairs", type=int, help="keys of a text, if not those of the size")
    args = parser.parse_args(argv)
    size = size_of(args, SIZES)
    found = settings(size)

    def draw(seed: Sequence[int]) -> Batch:
        examples = recall(np.random.default_rng(seed), size.rows, size.length, size.pairs, size.symbols)
        return torch.from_numpy(examples.ids_BL), torch.from_numpy(examples.targets_BL)

    def run(setting: str, seed: int) -> Figures:
        model = build(found[setting], seed)
        train(model, lambda step: draw((seed, step)), size.steps, size.lr)
        loss, accuracy = evaluate(model, [draw((0, number)) for number in range(size.evaluation)])
        return {"accuracy": accuracy, "loss": loss}

    Experiment("mqar", list(found), "full", size).conduct(run, args)


if __name__ == "__main__":
    main()
