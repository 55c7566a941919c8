"""The pieces of a training step on their own: what each costs, beside PyTorch's way of doing it.

    python bench/pieces.py

Medians of interleaved repeats, in milliseconds.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from interleaved import Work, median_seconds

from regard.core.dropout import Dropout
from regard.core.native import library
from regard.core.precision import cpu_matrix_units
from regard.train.loss_kernels import native_slice_loss, plain
from regard.train.memory import keep_freed_memory

ELEMENTS, ROWS, VOCABULARY = 4096 * 2048, 256, 10_000


def measure(works: dict[str, Work]) -> dict[str, float]:
    """Milliseconds of each."""
    return {name: seconds * 1e3 for name, seconds in median_seconds(works, repeats=15).items()}


def show(title: str, figures: dict[str, float]) -> None:
    print(title)
    for name, value in figures.items():
        print(f"  {name:<44}{value:9.2f} ms")


def main() -> None:
    keep_freed_memory()
    torch.manual_seed(1)
    print(f"{torch.get_num_threads()} threads, {cpu_matrix_units() or 'no bf16 units'}, torch {torch.__version__}")
    x = torch.randn(ELEMENTS).bfloat16()
    ours = Dropout(0.1).train()
    show(
        f"dropout of {ELEMENTS / 1e6:.1f} million bf16 elements",
        measure({"F.dropout": lambda: F.dropout(x, 0.1), "regard Dropout": lambda: ours(x)}),
    )
    logits = (torch.randn(ROWS, VOCABULARY) * 3).bfloat16()
    targets = torch.randint(VOCABULARY, (ROWS,))
    works: dict[str, Work] = {"PyTorch": lambda: plain(logits.clone(), targets, 0.9)}
    native = library()
    if native is not None:
        works["C++"] = lambda: native_slice_loss(native, logits.clone(), targets, 0.9, 0.0)
    show(f"loss and gradient of {ROWS} x {VOCABULARY:,} bf16 logits", measure(works))
    for rows, inner, columns in ((4096, 512, 2048), (4096, 2048, 512), (4096, 128, 512)):
        flops = 2 * rows * inner * columns
        figures = {}
        for dtype in (torch.float32, torch.bfloat16):
            a, b = torch.randn(rows, inner).to(dtype), torch.randn(columns, inner).to(dtype)
            out = torch.empty(rows, columns, dtype=dtype)
            figures[str(dtype)] = measure({"mm": lambda a=a, b=b, out=out: torch.mm(a, b.T, out=out)})["mm"]  # type: ignore[misc]
        print(f"product {rows} x {inner} x {columns}")
        for name, value in figures.items():
            print(f"  {name:<44}{value:9.2f} ms  {flops / value / 1e6:6.0f} GFLOP/s")


if __name__ == "__main__":
    main()
