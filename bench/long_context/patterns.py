"""Fixed or strided? The Sparse Transformer's two patterns on text and on images (Child et al. 2019, table 2).

    python bench/long_context/patterns.py --data text
    python bench/long_context/patterns.py --data images

Text: tiny Shakespeare by characters, stride 16. Images: Fashion-MNIST by pixels, the stride is a row. "strided" is
local and strided attention, half of the heads each, as in the paper. Two layers of GPT; figures in bits per symbol.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from corpora import SIDE, draw, fashion, next_token, shakespeare
from experiment import Experiment, Figures, options
from training import Batch, build, evaluate, train

from regard.config import GptConfig
from regard.config import attention as kinds
from regard.data.synthetic import FIRST

ROWS, STEPS = 24, 300


def main(argv: Sequence[str] | None = None) -> None:
    parser = options(__doc__)
    parser.add_argument("--data", choices=("text", "images"), default="text")
    parser.add_argument("--lr", type=float, default=3e-3)
    args = parser.parse_args(argv)
    steps = args.steps or (2 if args.toy else STEPS)
    text = args.data == "text"
    corpus, length = (shakespeare(args.toy), 192) if text else (fashion(args.toy), SIDE * SIDE)
    stride = 16 if text else SIDE
    attentions = {
        "strided": kinds.SparseAttentionConfig(("local", "strided"), stride=stride),
        "fixed": kinds.SparseAttentionConfig(("fixed",), stride=stride, summary_columns=2),
        "full": kinds.FullAttention(),
    }
    shape = {"d_model": 64, "d_ff": 256, "n_heads": 4, "n_layers": 2, "dropout": 0.0, "attention_dropout": 0.0}

    def batch(ids: object, seed: Sequence[int]) -> Batch:
        return next_token(draw(ids, ROWS, length, seed))  # type: ignore[arg-type]

    def run(setting: str, seed: int) -> Figures:
        size = {"max_positions": length, "vocab_size": corpus.n_symbols + FIRST}
        model = build(GptConfig(attention=attentions[setting], **shape, **size), seed)
        train(model, lambda step: batch(corpus.train, (seed, step)), steps, args.lr)
        loss, accuracy = evaluate(model, [batch(corpus.valid, (0, n)) for n in range(2 if args.toy else 12)])
        return {"bits": loss / math.log(2), "accuracy": accuracy}

    determinants = {"data": args.data, "length": length, "steps": steps, "lr": args.lr}
    Experiment("patterns", list(attentions), "strided", determinants).conduct(run, args)


if __name__ == "__main__":
    main()
