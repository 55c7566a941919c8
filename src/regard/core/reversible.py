"""Reversible layers (Reformer: Kitaev et al. 2020, section 3, after RevNet: Gomez et al. 2017).

A stack has two residual streams, which its sublayers change in turn: (a, b) → (b, a + f(b)). Each step can be undone,
a = d − f(c), so that the backward pass computes the inputs of every sublayer from its outputs, and the memory does not
grow with the number of layers. Each sublayer is computed once more, with the random numbers of the first time: the same
dropout, and the same hashes of LSH attention. Where a tap has a hook, nothing is undone and autograd holds everything.

The streams are float32 also where sublayers compute in bf16: what is undone must not be rounded more than once.

Shapes: B batch, L length, D model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from regard.core.residual import Residual
from regard.core.taps import Tap

_recomputing: ContextVar[bool] = ContextVar("recomputing", default=False)


def recomputing() -> bool:
    """Whether a sublayer is being computed again; what counts passes leaves these out."""
    return _recomputing.get()


@contextmanager
def _recomputation() -> Iterator[None]:
    before = _recomputing.set(True)
    try:
        yield
    finally:
        _recomputing.reset(before)


@dataclass(frozen=True)
class Sublayer:
    """f(x) = dropout(call(norm(x), …)), with what is around it in a pre-norm layer."""

    around: Residual
    inner: nn.Module  # has the parameters of `call`
    call: Callable[..., Tensor]

    def change(self, read: Tensor, others: Sequence[Tensor | None], dtype: torch.dtype) -> Tensor:
        """What is added to one stream, from the other and what all sublayers are given."""
        change = self.call(self.around.before(read.to(dtype)), *others)
        return self.around.dropout(change).to(read.dtype)  # type: ignore[no-any-return]

    def parameters(self) -> Iterator[nn.Parameter]:
        return chain(self.around.parameters(), self.inner.parameters())

    @property
    def hooked(self) -> bool:
        modules = chain(self.around.modules(), self.inner.modules())
        return any(module.hooked for module in modules if isinstance(module, Tap))


def run_reversibly(
    sublayers: Sequence[Sublayer], x_BLD: Tensor, *others: Tensor | None, undo: bool = True
) -> tuple[Tensor, Tensor]:
    """The two streams behind the last sublayer. Both begin as x_BLD.

    `others`, such as the encoder's output, are given to every `call` and get their gradients. Without `undo`, as with
    caches, which a second pass would change, autograd holds everything.
    """
    wide_BLD = x_BLD.to(torch.promote_types(x_BLD.dtype, torch.float32))
    if not undo or not torch.is_grad_enabled() or any(one.hooked for one in sublayers):
        return run_forwards(sublayers, wide_BLD, others, x_BLD.dtype)
    parameters = {id(p): p for one in sublayers for p in one.parameters() if p.requires_grad}
    given = (*others, *parameters.values())
    return _Reversible.apply(sublayers, len(others), x_BLD.dtype, wide_BLD, wide_BLD, *given)  # type: ignore[no-untyped-call, no-any-return]


def run_forwards(
    sublayers: Sequence[Sublayer], x_BLD: Tensor, others: Sequence[Tensor | None], dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """The definition."""
    a = b = x_BLD
    for sublayer in sublayers:
        a, b = b, sublayer.around.resid(a + sublayer.change(b, others, dtype))
    return a, b


class _Reversible(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        sublayers: Sequence[Sublayer],
        n_others: int,
        dtype: torch.dtype,
        a: Tensor,
        b: Tensor,
        *given: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        ctx.random_states = []
        for sublayer in sublayers:
            ctx.random_states.append(torch.get_rng_state())
            a, b = b, a + sublayer.change(b, given[:n_others], dtype)
        ctx.save_for_backward(a, b, *given)
        ctx.sublayers, ctx.n_others, ctx.dtype = sublayers, n_others, dtype
        return a, b

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_a: Tensor, grad_b: Tensor) -> tuple[Tensor | None, ...]:
        a, b, *given = ctx.saved_tensors
        others = [x if x is None else x.detach().requires_grad_(x.requires_grad) for x in given[: ctx.n_others]]
        found: list[Tensor | None] = [None] * len(given)
        place = {id(x): i for i, x in enumerate((*others, *given[ctx.n_others :]))}
        with torch.random.fork_rng(devices=[]), _recomputation():
            for sublayer, state in zip(reversed(ctx.sublayers), reversed(ctx.random_states), strict=True):
                torch.set_rng_state(state)
                read = a.detach().requires_grad_()
                with torch.enable_grad():
                    change = sublayer.change(read, others, ctx.dtype)
                own = [x for x in others if x is not None and x.requires_grad]
                own += [p for p in sublayer.parameters() if id(p) in place]
                grad_read, *grads = torch.autograd.grad(change, (read, *own), grad_b, allow_unused=True)
                a, b = b - change.detach(), a
                grad_a, grad_b = grad_b, grad_a if grad_read is None else grad_a + grad_read
                for tensor, grad in zip(own, grads, strict=True):
                    if grad is not None:
                        before = found[place[id(tensor)]]
                        found[place[id(tensor)]] = grad if before is None else before + grad
        return None, None, None, grad_a, grad_b, *found
