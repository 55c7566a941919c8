"""The ranks of the ring in test_ring.py, each a process of its own.

    python ring_ranks.py N_RANKS FOLDER compare|train

To compare, the first half of the ranks does everything again as a ring of its own.
"""

from __future__ import annotations

import multiprocessing
import sys
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from regard.config import GptConfig, RingAttentionConfig
from regard.core.attention.build import build_attention
from regard.core.masks import CausalMask, padding_mask
from regard.core.positions import RotaryPositions
from regard.core.sharding import Sharding, sharded
from regard.errors import RegardError
from regard.models.gpt import Gpt
from regard.train.sequence_parallel import backward, sharding_of, share_parameters

D, H = 12, 3


def case(folder: Path, sharding: Sharding | None, role: str, layout: Any) -> dict[str, Tensor]:
    """Outputs and gradients of one attention: of this rank's tokens, or of the whole text."""
    given = torch.load(folder / "inputs.pt", weights_only=True)
    torch.manual_seed(3)
    made = build_attention(RingAttentionConfig(block=3, layout=layout), D, H, role).double()  # type: ignore[arg-type]
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, 0.0, 0.4)
    x, memory, probe = (given[name].requires_grad_() for name in ("x", "memory", "probe"))
    ids, take = given["ids"], (lambda whole: whole) if sharding is None else (lambda whole: sharding.take(whole, 1))
    local = take(x)
    with nullcontext() if sharding is None else sharded(sharding):
        if role == "decoder":
            mask: Any = CausalMask(local.shape[1], local.shape[1])
            out = made(local, mask=mask, positions=RotaryPositions(D // H))
        else:
            mask = padding_mask(take(ids if role == "encoder" else ids[:, : memory.shape[1]]), 0)
            out = made(local, None if role == "encoder" else take(memory), mask=mask)
    (out * take(probe)).sum().backward()
    gradients = {name: p.grad for name, p in made.named_parameters()}
    found = {"out": out.detach(), "x": x.grad, "memory": memory.grad, **gradients}
    return {name: value for name, value in found.items() if value is not None}


def language_model(layout: Any) -> Gpt:
    torch.manual_seed(4)
    sizes = {"d_model": 12, "n_heads": 3, "d_ff": 24, "n_layers": 2, "max_positions": 64, "vocab_size": 11}
    ring = RingAttentionConfig(block=3, layout=layout)
    return Gpt(GptConfig(attention=ring, dropout=0.0, attention_dropout=0.0, **sizes)).double()


def step(folder: Path, rank: int, n_ranks: int, layout: Any) -> dict[str, Tensor]:
    """The loss and the gradients of a language model."""
    model = language_model(layout)
    sharding = sharding_of(model, rank, n_ranks)
    share_parameters(model, sharding)
    ids = torch.load(folder / "inputs.pt", weights_only=True)["text"]
    loss = torch.tensor(backward(model, ids[:, :-1], ids[:, 1:], sharding), dtype=torch.float64)
    return {"loss": loss, **{name: p.grad for name, p in model.named_parameters() if p.grad is not None}}


def train_forever(folder: Path, rank: int, n_ranks: int) -> None:
    """Until another rank is lost. The first step is announced by a file."""
    model = language_model("zigzag")
    sharding, ids = sharding_of(model, rank, n_ranks), torch.randint(11, (1, 61))
    while True:
        backward(model, ids[:, :-1], ids[:, 1:], sharding)
        (folder / f"rank{rank}.started").touch()


def compare(folder: Path, rank: int, n_ranks: int) -> None:
    for layout in ("contiguous", "zigzag"):
        found = {
            role: case(folder, Sharding(rank, n_ranks, layout), role, layout)  # type: ignore[arg-type]
            for role in ("encoder", "decoder", "cross")
        }
        found["language model"] = step(folder, rank, n_ranks, layout)
        torch.save(found, folder / f"{layout}{rank}of{n_ranks}.pt")


def run(rank: int, n_ranks: int, folder: Path, what: str) -> None:
    sizes = [n_ranks] if what == "train" else [n_ranks, n_ranks // 2]
    for size in sizes:
        if rank >= size:
            return
        store = dist.FileStore(str(folder / f"store{size}"), size)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=timedelta(seconds=20))
        if what == "train":
            train_forever(folder, rank, size)
        compare(folder, rank, size)
        dist.destroy_process_group()


def run_rank(rank: int, n_ranks: int, folder: Path, what: str) -> None:
    """In a process of its own. What went wrong is written to a file."""
    try:
        run(rank, n_ranks, folder, what)
    except RegardError as error:
        (folder / f"rank{rank}.error").write_text(f"error: {error}", "utf-8")
        sys.exit(error.code)


def main(n_ranks: int, folder: Path, what: str) -> None:
    """Fork the ranks, which saves importing torch in each; tell their process ids, and in the end how they ended."""
    torch.set_num_threads(1)
    fork = multiprocessing.get_context("fork")
    ranks = [fork.Process(target=run_rank, args=(rank, n_ranks, folder, what)) for rank in range(n_ranks)]
    for rank in ranks:
        rank.start()
    print(*(rank.pid for rank in ranks), flush=True)
    for rank in ranks:
        rank.join()
    print(*(rank.exitcode for rank in ranks), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
