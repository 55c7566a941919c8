"""Adam as in the paper (section 5.3), AdamW and Adafactor; the learning rate as a function of the step."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, assert_never

import torch
from torch import Tensor, nn

from regard.config import OptimizerKind, ScheduleKind


def learning_rate(step: int, kind: ScheduleKind, peak: float, warmup_steps: int, max_steps: int) -> float:
    """The learning rate of step 1, 2, …: linear warm-up to the peak, then the schedule."""
    if step < warmup_steps:
        return peak * step / warmup_steps
    match kind:
        case "inverse_sqrt":
            return peak * math.sqrt(warmup_steps / step)
        case "cosine":
            done = (step - warmup_steps) / max(1, max_steps - warmup_steps)
            return peak * 0.5 * (1 + math.cos(math.pi * min(1.0, done)))
        case "constant":
            return peak
        case _:
            assert_never(kind)


def cooldown_factor(left: float, cooldown: float) -> float:
    """The factor of the learning rate when the fraction `left` of the run remains: 1, then a linear decay to 0.

    A late linear decay (Zhai et al. 2022), in contrast to a cosine.
    """
    return min(1.0, left / cooldown) if cooldown else 1.0


def paper_learning_rate(d_model: int, warmup_steps: int) -> float:
    """The peak of the paper's schedule (section 5.3): (d_model · warmup_steps)^-0.5."""
    return 1 / math.sqrt(d_model * warmup_steps)


def build_optimizer(
    kind: OptimizerKind, parameters: Iterable[nn.Parameter], betas: tuple[float, float], eps: float, weight_decay: float
) -> torch.optim.Optimizer:
    """Weight decay applies to matrices only, not to norms and biases.

    Adafactor scales the update of a matrix by the size of its weights. T5 was trained with it: its embeddings are
    initialised √d_model times as large as its other matrices.
    """
    parameters = list(parameters)
    groups = [
        {"params": [p for p in parameters if p.dim() > 1], "weight_decay": weight_decay},
        {"params": [p for p in parameters if p.dim() <= 1], "weight_decay": 0.0},
    ]
    match kind:
        case "adam":
            return torch.optim.Adam(groups, betas=betas, eps=eps, fused=True)
        case "adamw":
            return torch.optim.AdamW(groups, betas=betas, eps=eps, fused=True)
        case "adafactor":
            return torch.optim.Adafactor(groups)
        case _:
            assert_never(kind)


def optimizer_tensors(optimizer: torch.optim.Optimizer, names: Mapping[nn.Parameter, str]) -> dict[str, Tensor]:
    """The optimiser's state as named tensors: `exp_avg/encoder.0.ffn.up.weight` and so on."""
    return {
        f"{key}/{name}": value
        for parameter, name in names.items()
        if parameter in optimizer.state
        for key, value in optimizer.state[parameter].items()
    }


def restore_optimizer(
    optimizer: torch.optim.Optimizer, names: Mapping[nn.Parameter, str], tensors: Mapping[str, Tensor]
) -> None:
    parameters = {name: parameter for parameter, name in names.items()}
    state: dict[Tensor, dict[str, Any]] = {}
    for path, value in tensors.items():
        key, name = path.split("/", 1)
        state.setdefault(parameters[name], {})[key] = value.to(parameters[name].device, copy=True)
    optimizer.state.update(state)
