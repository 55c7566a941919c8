"""The pieces of a training step on their own: what each costs, beside PyTorch's way of doing it.

python bench/pieces.py
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from interleaved import seconds_in_turn
from report import Comparison, Report, options

from regard.core.dropout import Dropout
from regard.core.native import library
from regard.train.loss_kernels import native_slice_loss, plain
from regard.train.memory import keep_freed_memory

ELEMENTS, ROWS, VOCABULARY = 4096 * 2048, 256, 10_000


def milliseconds(works: dict[str, Callable[[], object]], repeats: int) -> dict[str, list[float]]:
    return {name: [1e3 * value for value in values] for name, values in seconds_in_turn(works, repeats).items()}


def compare_dropouts(elements: int, repeats: int) -> Comparison:
    x = torch.randn(elements).bfloat16()
    dropout = Dropout(0.1).train()
    works = {"F.dropout": lambda: F.dropout(x, 0.1), "regard Dropout": lambda: dropout(x)}
    what = f"dropout of {elements:,} bf16 numbers"
    return Comparison(what, "ms", milliseconds(works, repeats), "F.dropout", less_is_better=True)


def compare_losses(rows: int, vocabulary: int, repeats: int) -> Comparison:
    """Our own way without C++ is the base: PyTorch's operators, in a slice of the batch."""
    logits = (torch.randn(rows, vocabulary) * 3).bfloat16()
    targets = torch.randint(vocabulary, (rows,))
    works: dict[str, Callable[[], object]] = {"PyTorch's operators": lambda: plain(logits.clone(), targets, 0.9)}
    native = library()
    if native is not None:
        works["regard C++"] = lambda: native_slice_loss(native, logits.clone(), targets, 0.9, 0.0)
    what = f"loss and gradient of {rows} x {vocabulary:,} bf16 logits"
    return Comparison(what, "ms", milliseconds(works, repeats), "PyTorch's operators", less_is_better=True)


def main(argv: Sequence[str] | None = None) -> None:
    args = options(__doc__).parse_args(argv)
    keep_freed_memory()
    torch.manual_seed(1)
    report = Report()
    shrink = 64 if args.toy else 1
    report.add(compare_dropouts(ELEMENTS // shrink**2, args.repeats))
    report.add(compare_losses(ROWS // shrink, VOCABULARY // shrink, args.repeats))
    report.write(args.json)


if __name__ == "__main__":
    main()
