"""Training speed beside PyTorch's own Transformer: same sizes, batches, loss and optimiser, in one run.

    python bench/train.py                      # base, five interleaved repeats
    python bench/train.py --size small --repeats 7 --json train.json

Each repeat times one step of every system on the same batch, in turn, so that a noisy machine is noisy for
all of them; the figure is the median. The score is real target tokens per second.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.config import PRESETS, ModelConfig
from regard.core.positions import sinusoids
from regard.core.precision import choose_dtype, cpu_matrix_units
from regard.data.batches import Batch, collate
from regard.models.transformer import PAD, Transformer
from regard.train.loss import vocabulary_loss
from regard.train.memory import keep_freed_memory
from regard.train.optimizer import build_optimizer

VOCABULARY, BATCH_TOKENS, SMOOTHING, DROPOUT = 10_000, 4096, 0.1, 0.1
# nn.Transformer drops attention weights and activations too.
DROPOUTS = {"dropout": DROPOUT, "attention_dropout": DROPOUT, "activation_dropout": DROPOUT}
Step = Callable[[Batch], float]


def make_batches(count: int, seed: int = 1) -> list[Batch]:
    """Sentences of 6 to 24 tokens, bucketed by length as the trainer does, 4,096 padded tokens a batch."""
    rng = np.random.default_rng(seed)
    batches = []
    for _ in range(count):
        longest = int(rng.integers(10, 24))
        rows = BATCH_TOKENS // (longest + 1)
        lengths = rng.integers(max(5, longest - 2), longest + 1, size=(rows, 2))
        sentences = [[rng.integers(4, VOCABULARY, size=n).tolist() for n in pair] for pair in lengths]
        batches.append(collate([src for src, _ in sentences], [tgt for _, tgt in sentences]))
    return batches


def tensors(batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
    return torch.from_numpy(batch.src), torch.from_numpy(batch.tgt_in), torch.from_numpy(batch.tgt_out)


def regard_step(size: str, dtype: torch.dtype) -> Step:
    config = ModelConfig(**{**PRESETS[size], **DROPOUTS, "src_vocab_size": VOCABULARY, "tgt_vocab_size": VOCABULARY})
    model = Transformer(config)
    model.compute_dtype = dtype
    optimizer = build_optimizer("adam", model.parameters(), (0.9, 0.98), 1e-9, 0.0)

    def step(batch: Batch) -> float:
        src, tgt_in, tgt_out = tensors(batch)
        hidden, real = model.hidden(src, tgt_in), tgt_out != PAD
        loss = vocabulary_loss(hidden[real], model.output.weight, tgt_out[real], SMOOTHING).objective / batch.n_tokens
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.item()

    return step


class TorchTransformer(nn.Module):
    """nn.Transformer with what it leaves to the user: embeddings, positions, the tied output."""

    def __init__(self, size: str) -> None:
        super().__init__()
        p = PRESETS[size]
        self.d_model = p["d_model"]
        self.embedding = nn.Embedding(VOCABULARY, self.d_model, padding_idx=PAD)
        nn.init.normal_(self.embedding.weight, std=self.d_model**-0.5)
        self.register_buffer("positions", sinusoids(256, self.d_model).float())
        self.dropout = nn.Dropout(DROPOUT)
        self.body = nn.Transformer(
            self.d_model,
            p["n_heads"],
            p["n_encoder_layers"],
            p["n_decoder_layers"],
            p["d_ff"],
            DROPOUT,
            batch_first=True,
        )

    def embed(self, ids: Tensor) -> Tensor:
        return self.dropout(self.embedding(ids) * math.sqrt(self.d_model) + self.positions[: ids.shape[1]])

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        causal = torch.ones(tgt.shape[1], tgt.shape[1], dtype=torch.bool).triu(1)
        padding = src == PAD
        hidden = self.body(
            self.embed(src),
            self.embed(tgt),
            tgt_mask=causal,
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
        )
        return F.linear(hidden, self.embedding.weight)


def torch_step(size: str, dtype: torch.dtype) -> Step:
    model = TorchTransformer(size)
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9, fused=True)

    def step(batch: Batch) -> float:
        src, tgt_in, tgt_out = tensors(batch)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype == torch.bfloat16):
            logits = model(src, tgt_in)
        loss = F.cross_entropy(
            logits.float().flatten(0, 1), tgt_out.flatten(), ignore_index=PAD, label_smoothing=SMOOTHING
        )
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.item()

    return step


def run(systems: dict[str, Step], repeats: int) -> dict[str, list[float]]:
    """Target tokens per second of each system, one figure a repeat; the first batch warms up."""
    warm, *batches = make_batches(repeats + 1)
    for step in systems.values():
        step(warm)
    speeds: dict[str, list[float]] = {name: [] for name in systems}
    for batch in batches:
        for name, step in systems.items():
            started = time.perf_counter()
            step(batch)
            speeds[name].append(batch.n_tokens / (time.perf_counter() - started))
    return speeds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=sorted(PRESETS), default="base")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path, help="write the figures here too")
    args = parser.parse_args()
    keep_freed_memory()  # for all of them: the comparison is of the steps, not of the allocator
    torch.manual_seed(1)
    best = choose_dtype("auto", torch.device("cpu"))
    systems: dict[str, Step] = {
        "nn.Transformer float32": torch_step(args.size, torch.float32),
        "nn.Transformer bf16": torch_step(args.size, torch.bfloat16),
        "regard float32": regard_step(args.size, torch.float32),
    }
    if best == torch.bfloat16:
        systems["regard bf16"] = regard_step(args.size, torch.bfloat16)
    speeds = run(systems, args.repeats)
    units = cpu_matrix_units() or "no bf16 units"
    print(f"{args.size}, {torch.get_num_threads()} threads, {units}, torch {torch.__version__}, {args.repeats} repeats")
    medians = {name: statistics.median(values) for name, values in speeds.items()}
    for name, speed in medians.items():
        ratio = speed / medians["nn.Transformer float32"]
        print(f"{name:<24} {speed:>8,.0f} target tokens/s   {ratio:4.2f} x nn.Transformer float32")
    if args.json:
        machine = {
            "cpu": platform.processor(),
            "units": units,
            "threads": torch.get_num_threads(),
            "torch": torch.__version__,
        }
        args.json.write_text(json.dumps({"size": args.size, "machine": machine, "speeds": speeds}, indent=2) + "\n")


if __name__ == "__main__":
    main()
