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
from experiment import Experiment, Figures, options
from training import Batch, build, evaluate, train

from regard.config import BertConfig, FamilyConfig, GptConfig
from regard.config import attention as kinds
from regard.data.synthetic import FIRST, recall

VOCABULARY, ROWS, STEPS = 8192, 64, 800


def settings(length: int) -> dict[str, FamilyConfig]:
    quarter = length // 4
    decoders = {
        "full": kinds.FullAttention(),
        "blockwise": kinds.BlockwiseAttentionConfig(block=quarter),
        "window": kinds.WindowAttentionConfig(window=(quarter,)),
        "sparse": kinds.SparseAttentionConfig(stride=quarter // 2),
        "fixed": kinds.SparseAttentionConfig(("fixed",), stride=quarter, summary_columns=quarter // 8),
        "adaptive_span": kinds.AdaptiveSpanConfig(max_span=length, ramp=quarter // 2, initial_span=quarter),
    }
    if hasattr(kinds, "LshAttentionConfig"):
        decoders["lsh"] = kinds.LshAttentionConfig(chunk=quarter // 2, n_rounds=2)
    encoders = {
        "full, encoder": kinds.FullAttention(),
        "block": kinds.BlockAttentionConfig(length, n_blocks=4, shifts=(0, 1, 2, 3)),
        "linformer": kinds.LinformerConfig(length, quarter),
    }
    shape = {"d_model": 64, "d_ff": 128, "n_heads": 4, "n_layers": 2, "max_positions": length, "dropout": 0.0}
    shape |= {"attention_dropout": 0.0, "vocab_size": VOCABULARY + FIRST}
    found: dict[str, FamilyConfig] = {name: GptConfig(attention=kind, **shape) for name, kind in decoders.items()}
    return found | {name: BertConfig(attention=kind, heads=("masked",), **shape) for name, kind in encoders.items()}


def main(argv: Sequence[str] | None = None) -> None:
    parser = options(__doc__)
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--pairs", type=int, default=4)
    parser.add_argument("--lr", type=float, default=3e-3)
    args = parser.parse_args(argv)
    steps = args.steps or (2 if args.toy else STEPS)
    found = settings(args.length)
    size = {"length": args.length, "pairs": args.pairs, "steps": steps, "lr": args.lr}

    def draw(seed: Sequence[int]) -> Batch:
        examples = recall(np.random.default_rng(seed), ROWS, args.length, args.pairs, VOCABULARY)
        return torch.from_numpy(examples.ids_BL), torch.from_numpy(examples.targets_BL)

    def run(setting: str, seed: int) -> Figures:
        model = build(found[setting], seed)
        train(model, lambda step: draw((seed, step)), steps, args.lr)
        loss, accuracy = evaluate(model, [draw((0, number)) for number in range(2 if args.toy else 16)])
        return {"accuracy": accuracy, "loss": loss}

    Experiment("mqar", list(found), "full", size).conduct(run, args)


if __name__ == "__main__":
    main()
