"""The operations of a training step, each compared with PyTorch's operators.

python bench/training_operations.py
"""

from __future__ import annotations

import ctypes
import itertools
import statistics
import sys
import time
from collections.abc import Callable, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from interleaved import milliseconds_in_turn
from report import Comparison, Report, options
from torch import Tensor
from workloads import make_tokenizer, multi30k

from regard.core.attention.reference import reference_attention
from regard.core.attention.short import short_attention
from regard.core.dropout import Dropout
from regard.core.feedforward import relu_dropout
from regard.core.linear import linear
from regard.core.masks import padding_mask
from regard.core.positions import RotaryPositions, rotate_plainly
from regard.core.residual import Residual
from regard.core.rotation import rotate
from regard.data.batches import alike_together, cut_to_budget
from regard.kernels.loader import library
from regard.kernels.memory import M_MMAP_MAX, M_TOP_PAD, M_TRIM_THRESHOLD, keep_freed_memory, region
from regard.kernels.training import TRAINING
from regard.train.loss_kernels import native_slice_loss, plain

ELEMENTS, ROWS, VOCABULARY = 4096 * 2048, 256, 10_000
TOKENS, WIDTH, HEADS, LENGTH = 4096, 512, 8, 12  # of a step of `base` with short sentences
SHAPES = 25  # in one repeat
TIMES = 20  # allocations per measurement
M_MMAP_THRESHOLD = -3  # of glibc's mallopt


def compare_dropouts(elements: int, repeats: int) -> Comparison:
    x = torch.randn(elements).bfloat16()
    dropout = Dropout(0.1).train()
    works = {"F.dropout": lambda: F.dropout(x, 0.1), "regard Dropout": lambda: dropout(x)}
    what = f"dropout of {elements:,} bf16 numbers"
    return Comparison(what, "ms", milliseconds_in_turn(works, repeats), "F.dropout", less_is_better=True)


def compare_losses(rows: int, vocabulary: int, repeats: int) -> Comparison:
    """Our own way without C++ is the base: PyTorch's operators, in a slice of the batch."""
    logits = (torch.randn(rows, vocabulary) * 3).bfloat16()
    targets = torch.randint(vocabulary, (rows,))
    works: dict[str, Callable[[], object]] = {"PyTorch's operators": lambda: plain(logits.clone(), targets, 0.9)}
    native = library(TRAINING)
    if native is not None:
        works["regard C++"] = lambda: native_slice_loss(native, logits.clone(), targets, 0.9, 0.0)
    what = f"loss and gradient of {rows} x {vocabulary:,} bf16 logits"
    return Comparison(what, "ms", milliseconds_in_turn(works, repeats), "PyTorch's operators", less_is_better=True)


def forward_backward(forward: Callable[[], Tensor]) -> Callable[[], object]:
    return lambda: forward().sum().backward()


def compare_linears(tokens: int, width: int, repeats: int) -> Comparison:
    """A linear map from the model's width to four times it: PyTorch's products, and ours in int8."""
    x, weight, bias = torch.randn(tokens, width).bfloat16(), torch.randn(4 * width, width), torch.randn(4 * width)
    grad = torch.randn(tokens, 4 * width).bfloat16()
    leaves = [leaf.requires_grad_() for leaf in (x, weight, bias)]

    def all_products(in_int8: bool) -> Callable[[], object]:
        return lambda: torch.autograd.grad(linear(x, weight, bias, in_int8), leaves, grad)

    works = {"bf16": all_products(False)} | ({} if library(TRAINING) is None else {"regard int8": all_products(True)})
    what = f"linear map of {tokens:,} x {width} to {4 * width:,}, forward and backward"
    return Comparison(what, "ms", milliseconds_in_turn(works, repeats), "bf16", less_is_better=True)


def compare_residuals(tokens: int, width: int, repeats: int) -> Comparison:
    """Add & norm with its dropout: step by step, and in one pass."""
    x, change = (torch.randn(tokens, width).bfloat16().requires_grad_() for _ in range(2))
    residual = Residual(width, "post", "layernorm", 0.1).train()
    norm = torch.nn.LayerNorm(width)
    stepwise = forward_backward(lambda: norm((x + F.dropout(change, 0.1)).float()).bfloat16())
    works = {"PyTorch's operators": stepwise, "regard": forward_backward(lambda: residual.after(x, change))}
    what = f"add & norm of {tokens:,} x {width} bf16 numbers, forward and backward"
    return Comparison(what, "ms", milliseconds_in_turn(works, repeats), "PyTorch's operators", less_is_better=True)


def compare_attentions(tokens: int, width: int, repeats: int) -> Comparison:
    """From the projection to what the next product takes, and back, with a tenth of the weights dropped."""
    head_size = max(width // HEADS, 1)
    qkv = torch.randn(tokens // LENGTH, LENGTH, 3 * HEADS * head_size).bfloat16().requires_grad_()
    mask, dropout, scale = padding_mask(torch.ones(qkv.shape[:2]), 0), Dropout(0.1).train(), head_size**-0.5

    def attend(kernel: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Callable[[], object]:
        def forward() -> Tensor:
            q, k, v = (one.unflatten(-1, (HEADS, head_size)).transpose(1, 2) for one in qkv.chunk(3, dim=-1))
            return kernel(q, k, v).transpose(1, 2).flatten(2)

        return forward_backward(forward)

    works = {
        "PyTorch's fused": attend(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, mask, 0.1)),
        "written out": attend(lambda q, k, v: reference_attention(q, k, v, mask, scale, dropout=dropout)[0]),
    }
    if library(TRAINING) is not None:
        works["regard C++"] = attend(lambda q, k, v: short_attention(q, k, v, mask, scale, dropout.p))
    what = f"attention in {len(qkv):,} sentences of {LENGTH} tokens, bf16, forward and backward"
    return Comparison(what, "ms", milliseconds_in_turn(works, repeats), "PyTorch's fused", less_is_better=True)


def compare_rotations(tokens: int, width: int, repeats: int) -> Comparison:
    """Rotary positions, of the queries that a projection has left beside keys and values."""
    head_size = max(width // HEADS, 2)
    qkv = torch.randn(tokens // LENGTH, LENGTH, 3 * HEADS * head_size).bfloat16().requires_grad_()
    angles = RotaryPositions(head_size).cos_sin(torch.arange(LENGTH, dtype=torch.float32))

    def turn(kernel: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Callable[[], object]:
        def forward() -> Tensor:
            q = qkv[..., : HEADS * head_size].unflatten(-1, (HEADS, head_size)).transpose(1, 2)
            return kernel(q, *angles)

        return forward_backward(forward)

    works = {"PyTorch's operators": turn(rotate_plainly)}
    if library(TRAINING) is not None:
        works["regard C++"] = turn(rotate)
    what = f"rotary positions of {tokens:,} x {width} bf16 numbers, forward and backward"
    return Comparison(what, "ms", milliseconds_in_turn(works, repeats), "PyTorch's operators", less_is_better=True)


def compare_activations(tokens: int, width: int, repeats: int) -> Comparison:
    """ReLU and dropout of what a feed-forward network has inside."""
    x = torch.randn(tokens, 4 * width).bfloat16().requires_grad_()
    dropout = Dropout(0.1).train()
    works = {
        "PyTorch's operators": forward_backward(lambda: F.dropout(F.relu(x), 0.1)),
        "one after the other": forward_backward(lambda: dropout(F.relu(x))),
    }
    if library(TRAINING) is not None:
        works["regard C++"] = forward_backward(lambda: relu_dropout(x, dropout.p))
    what = f"ReLU and dropout of {tokens:,} x {4 * width} bf16 numbers, forward and backward"
    return Comparison(what, "ms", milliseconds_in_turn(works, repeats), "PyTorch's operators", less_is_better=True)


def compare_projections(tokens: int, width: int, repeats: int) -> Comparison:
    x = torch.randn(tokens, width).bfloat16().requires_grad_()
    whole = torch.randn(3 * width, width).bfloat16().requires_grad_()
    parts = [part.detach().clone().requires_grad_() for part in whole.chunk(3)]
    works = {
        "three products": forward_backward(lambda: torch.cat([F.linear(x, part) for part in parts], dim=1)),
        "one product": forward_backward(lambda: F.linear(x, whole)),
    }
    what = f"queries, keys and values of {tokens:,} x {width} bf16 numbers, forward and backward"
    return Comparison(what, "ms", milliseconds_in_turn(works, repeats), "three products", less_is_better=True)


def compare_memory(tokens: int, vocabulary: int, repeats: int) -> Comparison:
    """A product into freshly mapped memory, and into memory kept by the allocator."""
    x, weight = torch.randn(tokens // 4, WIDTH).bfloat16(), torch.randn(vocabulary, WIDTH).bfloat16()

    def under(setting: Callable[[], object]) -> Callable[[], object]:
        def multiply() -> None:
            setting()
            for _ in range(TIMES):
                F.linear(x, weight)

        return multiply

    works = {"handed back": under(hand_back_freed_memory), "kept": under(keep_freed_memory)}
    what = f"{TIMES} times {tokens // 4:,} x {WIDTH} x {vocabulary:,} bf16 product, its memory taken and freed"
    return Comparison(what, "ms", milliseconds_in_turn(works, repeats), "handed back", less_is_better=True)


def hand_back_freed_memory() -> None:
    """The defaults of PyTorch and glibc."""
    if (kept := region()) is not None:
        kept["use_region"](False)
    if sys.platform.startswith("linux"):
        mallopt = ctypes.CDLL(None).mallopt
        for name in (M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD):
            mallopt(name, 128 << 10)
        mallopt(M_MMAP_MAX, 65536)


def compare_shapes(tokens: int, width: int, repeats: int) -> Comparison:
    """Products of lengths that no product had before, each at once again: what a new shape costs."""
    weight = torch.randn(4 * width, width).bfloat16()
    lengths = iter(range(tokens, 0, -1))
    figures: dict[str, list[float]] = {"new shapes": [], "known shapes": []}
    for _ in range(repeats):
        seconds: dict[str, list[float]] = {name: [] for name in figures}
        for length in itertools.islice(lengths, SHAPES):
            x = torch.randn(length, width).bfloat16()
            for values in seconds.values():
                start = time.perf_counter()
                F.linear(x, weight)
                values.append(time.perf_counter() - start)
        for name, values in seconds.items():
            figures[name].append(1e3 * statistics.median(values))
    what = f"a bf16 product of up to {tokens:,} x {width} by {4 * width:,}, of {SHAPES} lengths in turn"
    return Comparison(what, "ms", figures, "new shapes", less_is_better=True)


def compare_orders(pairs: Sequence[tuple[int, int]], batch_tokens: int) -> Comparison:
    """The share of tokens, as opposed to padding, in a batch."""
    lengths = np.array(pairs)
    in_turn = np.arange(len(lengths))
    like = alike_together(lengths[:, 0], lengths[:, 1], np.random.default_rng(1))
    orders = {"in any order": in_turn, "regard, similar lengths": like}
    full = {}
    for name, order in orders.items():
        batches = cut_to_budget(order, lengths.max(axis=1), batch_tokens)
        positions = sum(len(batch) * lengths[batch].max(axis=0).sum() for batch in batches)
        full[name] = [100 * float(lengths.sum() / positions)]
    return Comparison(f"tokens among the positions of {len(lengths):,} pairs", "%", full, "in any order")


def lengths_of_pairs(toy: bool) -> list[tuple[int, int]]:
    """In pieces, with the end of the sentence: of Multi30k's training pairs, or of as many random ones."""
    texts = [multi30k(f"train.{lang}") for lang in ("en", "de")]
    if toy or texts[0] is None or texts[1] is None:
        drawn = np.random.default_rng(1).gamma(6.0, 2.5, size=(29_000, 1))
        return [(int(n) + 1, int(n) + 2) for n in drawn[:, 0]]
    tokenizer = make_tokenizer([*texts[0], *texts[1]], VOCABULARY)
    encoded = zip(tokenizer.encode_src(texts[0]), tokenizer.encode_tgt(texts[1]), strict=True)
    return [(len(src) + 1, len(tgt) + 1) for src, tgt in encoded]


def main(argv: Sequence[str] | None = None) -> None:
    args = options(__doc__).parse_args(argv)
    keep_freed_memory()
    torch.manual_seed(1)
    report = Report()
    shrink = 64 if args.toy else 1
    report.add(compare_dropouts(ELEMENTS // shrink**2, args.repeats))
    report.add(compare_losses(ROWS // shrink, VOCABULARY // shrink, args.repeats))
    attention = (compare_projections, compare_rotations, compare_attentions)
    for compare in (compare_linears, compare_residuals, compare_activations, *attention, compare_shapes):
        report.add(compare(TOKENS // shrink, WIDTH // shrink, args.repeats))
    report.add(compare_memory(TOKENS // shrink, VOCABULARY // shrink, args.repeats))
    report.add(compare_orders(lengths_of_pairs(args.toy), TOKENS))
    report.write(args.json)


if __name__ == "__main__":
    main()
