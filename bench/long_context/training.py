"""Training of a small model in an experiment: AdamW, warm-up, cosine; one thread, so that a run can be repeated."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.config import FamilyConfig
from regard.core.auxiliary import auxiliary_loss, constrain
from regard.data.synthetic import NOT_ASKED
from regard.models.bert import Bert
from regard.models.build import build_model

Batch = tuple[Tensor, Tensor]  # ids_BL, targets_BL, NOT_ASKED where nothing is predicted
WARMUP, CLIP = 0.1, 1.0


def build(config: FamilyConfig, seed: int) -> nn.Module:
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    return build_model(config)


def asked_logits(model: Any, ids_BL: Tensor, asked: Tensor) -> Tensor:
    """logits_NV where something is predicted: by a GPT of the next token, by a BERT of this one."""
    if isinstance(model, Bert):
        return model.masked_logits(model(ids_BL)[asked])
    return model.project(model.hidden(ids_BL)[asked])  # type: ignore[no-any-return]


def loss_of(model: nn.Module, batch: Batch) -> tuple[Tensor, float]:
    """Mean −log p, and accuracy."""
    ids_BL, targets_BL = batch
    asked = targets_BL != NOT_ASKED
    logits_NV, targets_N = asked_logits(model, ids_BL, asked), targets_BL[asked]
    return F.cross_entropy(logits_NV, targets_N), float((logits_NV.argmax(-1) == targets_N).float().mean())


def train(model: nn.Module, draw: Callable[[int], Batch], steps: int, lr: float, decay: float = 0.01) -> None:
    """`draw` gives the batch of a step."""
    matrices = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() <= 1]
    groups = [{"params": matrices, "weight_decay": decay}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.98))
    warmup = max(WARMUP * steps, 1)
    model.train()
    for step in range(steps):
        left = (step - warmup) / max(steps - warmup, 1)
        factor = (step + 1) / warmup if step < warmup else 0.5 * (1 + math.cos(math.pi * left))
        for group in optimizer.param_groups:
            group["lr"] = lr * min(factor, 1.0)
        loss, _ = loss_of(model, draw(step))
        added = auxiliary_loss(model)
        (loss if added is None else loss + added).backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        constrain(model)


@torch.no_grad()
def evaluate(model: nn.Module, batches: list[Batch]) -> tuple[float, float]:
    """Mean loss and accuracy, each batch weighted alike."""
    model.eval()
    found = [loss_of(model, batch) for batch in batches]
    return sum(float(loss) for loss, _ in found) / len(found), sum(right for _, right in found) / len(found)
