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
from experiment import Experiment, Figures, Size, options, size_of
from training import Batch, build, evaluate, train

from regard.config import GptConfig
from regard.config import attention as kinds
from regard.data.synthetic import FIRST

SIZES = {
    "full": Size(length=192, rows=24, steps=300, lr=3e-3, evaluation=12),
    "small": Size(length=96, rows=16, steps=250, lr=5e-3, evaluation=8, d_model=32),
    "toy": Size(length=32, rows=2, steps=2, lr=3e-3, evaluation=1),
}


def main(argv: Sequence[str] | None = None) -> None:
    parser = options(__doc__)
    parser.add_argument("--data", choices=("text", "images"), default="text")
    args = parser.parse_args(argv)
    size, text = size_of(args, SIZES), args.data == "text"
    corpus, stride = (shakespeare if text else fashion)(args.size == "toy"), 16 if text else SIDE
    if not text:
        size = size._replace(length=SIDE * SIDE, rows=size.rows // 2)
    attentions = {
        "strided": kinds.SparseAttentionConfig(("local", "strided"), stride=stride),
        "fixed": kinds.SparseAttentionConfig(("fixed",), stride=stride, summary_columns=2),
        "full": kinds.FullAttention(),
    }

    def batch(ids: object, seed: Sequence[int]) -> Batch:
        return next_token(draw(ids, size.rows, size.length, seed))  # type: ignore[arg-type]

    def run(setting: str, seed: int) -> Figures:
        shape = {"vocab_size": corpus.n_symbols + FIRST, **size.shape(n_layers=2)}
        model = build(GptConfig(attention=attentions[setting], **shape), seed)
        train(model, lambda step: batch(corpus.train, (seed, step)), size.steps, size.lr)
        loss, accuracy = evaluate(model, [batch(corpus.valid, (0, n)) for n in range(size.evaluation)])
        return {"bits": loss / math.log(2), "accuracy": accuracy}

    Experiment("patterns", list(attentions), "strided", size, data=args.data).conduct(run, args)


if __name__ == "__main__":
    main()
