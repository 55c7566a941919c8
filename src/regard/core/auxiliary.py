"""What modules ask of training beside their gradients: terms of the loss, and limits of their parameters."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn


class AuxiliaryLoss(ABC):
    """A module with a term of its own in the loss."""

    @abstractmethod
    def auxiliary_loss(self) -> Tensor | None:
        """What is to be added to the mean loss of the batches since the last call; None: nothing."""


class Constrained(ABC):
    """A module whose parameters have limits."""

    @abstractmethod
    def constrain(self) -> None:
        """Move parameters that are beyond their limits back to them."""


def auxiliary_loss(model: nn.Module) -> Tensor | None:
    """The sum over all modules that have one."""
    found = [module.auxiliary_loss() for module in model.modules() if isinstance(module, AuxiliaryLoss)]
    losses = [loss for loss in found if loss is not None]
    return torch.stack(losses).sum() if losses else None


def constrain(model: nn.Module) -> None:
    """After a step of the optimiser."""
    for module in model.modules():
        if isinstance(module, Constrained):
            module.constrain()
