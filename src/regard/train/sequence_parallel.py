"""Training of a language model on texts that are cut among processes, under torchrun: sequence parallelism.

Every rank has the whole model, holds its part of each text, and computes it with ring attention. The loss is the mean
over the tokens of all ranks; gradients are summed over the ranks, so that all take the same step. The `Trainer` does
not do this yet: examples/train_long_text.py is a training loop with it.

Shapes: B batch, L tokens of a text, those of this rank; N of them with a target; D model.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor, nn

from regard.core.attention.latent import LatentAttention
from regard.core.attention.multi_head import MultiHeadAttention
from regard.core.attention.ring import RingAttention, losing_ranks
from regard.core.moe import Router
from regard.core.sharding import Sharding, sharded
from regard.errors import ConfigError
from regard.models.language_model import LanguageModel
from regard.train.loss import vocabulary_loss

TIMEOUT = 30.0  # seconds after which a rank that does not answer counts as lost
NO_TARGET = -1
VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


@contextmanager
def process_group(timeout: float = TIMEOUT) -> Iterator[tuple[int, int]]:
    """The rank of this process and the number of ranks, by torchrun's environment; 0 and 1 without torchrun."""
    if "WORLD_SIZE" not in os.environ:
        yield 0, 1
        return
    if missing := [name for name in VARIABLES if name not in os.environ]:
        raise ConfigError(f"WORLD_SIZE is set, but {missing[0]} is not: start with torchrun --nproc-per-node N")
    dist.init_process_group("gloo", timeout=timedelta(seconds=timeout))
    try:
        yield dist.get_rank(), dist.get_world_size()
    finally:
        dist.destroy_process_group()


def sharding_of(model: nn.Module, rank: int, n_ranks: int) -> Sharding:
    """How the texts of this model are cut. Raises for models that need to see more than their own tokens."""
    attentions = [m for m in model.modules() if isinstance(m, MultiHeadAttention | LatentAttention)]
    rings = [attention for attention in attentions if isinstance(attention, RingAttention)]
    if len(rings) < len(attentions) or not rings:
        raise ConfigError("texts are cut among ranks with model.attention.kind = 'ring' only, in every layer")
    if any(isinstance(module, Router) for module in model.modules()):
        raise ConfigError("model.ffn = 'moe' balances its experts over whole texts: it cannot be cut among ranks")
    return Sharding(rank, n_ranks, rings[0].layout)


def share_parameters(model: nn.Module, sharding: Sharding) -> None:
    """Give all ranks the parameters and buffers of rank 0."""
    with losing_ranks(sharding), torch.no_grad():
        for tensor in model.state_dict().values():
            if sharding.n_ranks > 1:
                dist.broadcast(tensor, src=0)


def backward(model: LanguageModel, ids_BL: Tensor, targets_BL: Tensor, sharding: Sharding) -> float:
    """Add the gradients of the mean loss of a batch, which every rank is given as a whole; returns the loss.

    Texts are padded to a length that can be cut. NO_TARGET as a target is left out.
    """
    n_targets = int((targets_BL != NO_TARGET).sum())
    padding = -ids_BL.shape[1] % sharding.multiple
    ids_BL = sharding.take(nn.functional.pad(ids_BL, (0, padding)), 1)
    targets_BL = sharding.take(nn.functional.pad(targets_BL, (0, padding), value=NO_TARGET), 1)
    real_BL = targets_BL != NO_TARGET
    output = model.output
    with sharded(sharding):  # the backward pass too: reversible layers compute their attention again
        hidden_ND = model.hidden(ids_BL)[real_BL]
        loss = vocabulary_loss(hidden_ND, output.weight, targets_BL[real_BL], in_int8=output.in_int8)
        (loss.objective / n_targets).backward()  # type: ignore[no-untyped-call]
    nll = loss.nll / n_targets
    sum_over_ranks([nll, *(p.grad for p in model.parameters() if p.grad is not None)], sharding)
    return float(nll)


def sum_over_ranks(tensors: list[Tensor], sharding: Sharding) -> None:
    """In place, the same on all ranks to the last bit."""
    if sharding.n_ranks == 1:
        return
    with losing_ranks(sharding):
        for tensor in tensors:
            dist.all_reduce(tensor)
