"""Peak rates of the machine with PyTorch's operators: matrix products in float32, bf16 and int8, memory bandwidth.

    python bench/hardware.py

They are lower bounds for the time of a training step or a translation.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from interleaved import Work, rates_in_turn
from report import Comparison, Report, options

Shape = tuple[int, int, int]  # rows, inner, columns
# A square; then the feed-forward, attention and vocabulary products of `base`, and the feed-forward of `small`.
LARGE: tuple[Shape, ...] = (
    (2048, 2048, 2048),
    (4096, 512, 2048),
    (4096, 2048, 512),
    (4096, 512, 1536),
    (256, 512, 10_000),
    (4096, 256, 1024),
)
# A decoding step: a batch of 64, a batch of 64 with beam 4, one sentence.
DECODING: tuple[Shape, ...] = ((64, 512, 2048), (256, 512, 2048), (64, 512, 10_000), (1, 512, 2048), (1, 512, 10_000))
TOY: tuple[Shape, ...] = ((64, 32, 64), (1, 32, 64))
PRODUCTS = {"float32": torch.float32, "bf16": torch.bfloat16, "int8": torch.int8}
ENOUGH = 2e9  # operations per measurement, well above the resolution of the clock


def product(dtype: torch.dtype, shape: Shape, enough: float = ENOUGH) -> Work:
    """Repeated products with at least `enough` operations in total. The result of int8 is int32."""
    rows, inner, columns = shape
    times = max(1, round(enough / (2 * rows * inner * columns)))
    if dtype == torch.int8:
        a = torch.randint(-128, 128, (rows, inner), dtype=dtype)
        b = torch.randint(-128, 128, (columns, inner), dtype=dtype).T
        out, multiply = torch.empty(rows, columns, dtype=torch.int32), torch._int_mm
    else:
        a, b = torch.randn(rows, inner).to(dtype), torch.randn(columns, inner).to(dtype).T
        out, multiply = torch.empty(rows, columns, dtype=dtype), torch.mm

    def work() -> float:
        for _ in range(times):
            multiply(a, b, out=out)
        return 2.0 * rows * inner * columns * times

    return work


def compare_products(shapes: Sequence[Shape], repeats: int, enough: float, report: Report) -> None:
    for shape in shapes:
        works = {name: product(dtype, shape, enough) for name, dtype in PRODUCTS.items()}
        found = {name: [rate / 1e9 for rate in rates] for name, rates in rates_in_turn(works, repeats).items()}
        report.add(Comparison(f"product {name_of(shape)}", "GFLOP/s", found, base="float32"))


def name_of(shape: Shape) -> str:
    return " x ".join(map(str, shape))


def bandwidth(elements: int) -> dict[str, Work]:
    """Bytes read and written; the arrays are larger than the caches."""
    a, b, c = (torch.ones(elements) for _ in range(3))

    def copy() -> float:
        b.copy_(a)
        return 8.0 * elements

    def read() -> float:
        a.sum()
        return 4.0 * elements

    def add() -> float:
        torch.add(a, b, out=c)
        return 12.0 * elements

    return {"copy": copy, "read": read, "add two arrays": add}


def main(argv: Sequence[str] | None = None) -> None:
    args = options(__doc__).parse_args(argv)
    report = Report()
    if args.toy:
        compare_products(TOY, args.repeats, 1.0, report)
    else:
        compare_products(LARGE + DECODING, args.repeats, ENOUGH, report)
    works = bandwidth(2**10 if args.toy else 2**26)
    found = {name: [rate / 1e9 for rate in rates] for name, rates in rates_in_turn(works, args.repeats).items()}
    report.add(Comparison("memory", "GB/s", found, base="copy"))
    report.write(args.json)


if __name__ == "__main__":
    main()
