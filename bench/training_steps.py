"""A training step of Regard and of a peer: forward, label-smoothed loss, backward, fused Adam."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.core.int8 import reason_against, use_int8
from regard.core.precision import choose_dtype, cpu_has_vnni, takes_int8
from regard.data.batches import Batch
from regard.models.transformer import Transformer
from regard.tokenizers.special_ids import PAD
from regard.train.loss import vocabulary_loss
from regard.train.optimizer import build_optimizer

CPU = torch.device("cpu")
SMOOTHING, BETAS, EPS = 0.1, (0.9, 0.98), 1e-9
NAMES = {torch.float32: "float32", torch.bfloat16: "bf16"}
Step = Callable[[Batch], float]
Rate = Callable[[int], float]  # learning rate at step 1, 2, …


def dtypes() -> list[torch.dtype]:
    """The dtypes to measure: bf16 only if the CPU has units for it."""
    best = choose_dtype("auto", CPU)
    return [torch.float32] if best == torch.float32 else [torch.float32, best]


def precisions() -> list[str]:
    """The precisions of Regard to measure: int8 only if the CPU has VNNI."""
    in_int8 = cpu_has_vnni() and reason_against(CPU) is None
    return [*(NAMES[dtype] for dtype in dtypes()), *(["int8"] if in_int8 else [])]


def chosen() -> str:
    """The precision that `regard train` chooses by default."""
    return "int8" if takes_int8("auto", CPU) else NAMES[dtypes()[-1]]


def tensors(batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
    return torch.from_numpy(batch.src), torch.from_numpy(batch.tgt_in), torch.from_numpy(batch.tgt_out)


def constant(step: int) -> float:
    return 1e-3


def update(optimizer: torch.optim.Optimizer, lr: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = lr
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def regard_step(model: Transformer, precision: str, rate: Rate = constant) -> Step:
    model.compute_dtype = {name: dtype for dtype, name in NAMES.items()}.get(precision, dtypes()[-1])
    if precision == "int8":
        use_int8(model)
    optimizer = build_optimizer("adam", model.parameters(), BETAS, EPS, 0.0)
    steps = count(1)

    def step(batch: Batch) -> float:
        src, tgt_in, tgt_out = tensors(batch)
        hidden, real = model.hidden(src, tgt_in), tgt_out != PAD
        summed = vocabulary_loss(
            hidden[real], model.output.weight, tgt_out[real], SMOOTHING, in_int8=model.output.in_int8
        )
        loss = summed.objective / batch.n_tokens
        loss.backward()
        update(optimizer, rate(next(steps)))
        return loss.item()

    return step


def peer_step(model: nn.Module, dtype: torch.dtype, rate: Rate = constant) -> Step:
    """`model` maps source and target ids to logits; bf16 is PyTorch's autocast."""
    optimizer = torch.optim.Adam(model.parameters(), betas=BETAS, eps=EPS, fused=True)
    steps = count(1)
    model.train()

    def step(batch: Batch) -> float:
        src, tgt_in, tgt_out = tensors(batch)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype == torch.bfloat16):
            logits = model(src, tgt_in)
        loss = F.cross_entropy(
            logits.float().flatten(0, 1), tgt_out.flatten(), ignore_index=PAD, label_smoothing=SMOOTHING
        )
        loss.backward()
        update(optimizer, rate(next(steps)))
        return loss.item()

    return step
