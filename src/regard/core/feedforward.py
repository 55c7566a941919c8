"""The position-wise feed-forward network (the paper, section 3.3), and the gated variants of Shazeer 2020.

In training, ReLU and its dropout are one pass of a C++ kernel, unless the tap between them has a hook.

Shapes: B batch, L length, D model, F feed-forward.
"""

from __future__ import annotations

from functools import partial
from typing import Any, assert_never

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import checkpoint

from regard.config import FeedForwardKind
from regard.core.dropout import Dropout, byte_threshold, inverse_keep_rate
from regard.core.linear import Linear
from regard.core.taps import Tap
from regard.kernels.loader import library
from regard.kernels.training import SUFFIXES, TRAINING, kernel, random_seed

GATED: tuple[FeedForwardKind, ...] = ("swiglu", "geglu")


class FeedForward(nn.Module):
    """relu, gelu, gelu_tanh, swish:  W₂ f(W₁ x + b₁) + b₂.
    swiglu, geglu:  W₂ (f(W_gate x + b_gate) · (W_up x + b_up)) + b₂, where f is silu or gelu_tanh.

    Gate and up are one matrix. x_BLD in, BLD out. With a `block`, longer texts are computed so many tokens at a time
    (Liu & Abbeel 2023), and again in the backward pass, so that the units of one block only are held.
    """

    def __init__(
        self, d_model: int, d_ff: int, kind: FeedForwardKind, dropout: float, bias: bool = True, block: int = 0
    ) -> None:
        super().__init__()
        self.kind, self.block = kind, block
        self.up = Linear(d_model, 2 * d_ff if kind in GATED else d_ff, bias)
        self.down = Linear(d_ff, d_model, bias)
        self.dropout = Dropout(dropout)
        self.ffn_hidden, self.ffn_out = Tap(), Tap()

    def forward(self, x_BLD: Tensor) -> Tensor:
        if not 0 < self.block < x_BLD.shape[1] or self.ffn_hidden.hooked:
            return self.ffn_out(self.run(x_BLD))  # type: ignore[no-any-return]
        run = partial(checkpoint, self.run, use_reentrant=False) if torch.is_grad_enabled() else self.run
        return self.ffn_out(torch.cat([run(part) for part in torch.split(x_BLD, self.block, dim=1)], dim=1))  # type: ignore[no-any-return]

    def run(self, x_BLD: Tensor) -> Tensor:
        up_BLF = self.up(x_BLD)
        if self.can_fuse(up_BLF):
            dropped_BLF = relu_dropout(up_BLF, self.dropout.p)
        else:
            dropped_BLF = self.dropout(self.ffn_hidden(activate(self.kind, up_BLF)))
        return self.down(dropped_BLF)  # type: ignore[no-any-return]

    def can_fuse(self, up: Tensor) -> bool:
        """Whether dropout follows a ReLU, the kernel supports the tensor, and the tap between them has no hook."""
        wanted = self.kind == "relu" and self.dropout.active_p > 0 and not self.ffn_hidden.hooked
        return wanted and up.device.type == "cpu" and up.dtype in SUFFIXES and library(TRAINING) is not None


def relu_dropout(x: Tensor, p: float) -> Tensor:
    """dropout(relu(x)) in C++; p is the dropout probability."""
    return _ReluDropout.apply(x, p)  # type: ignore[no-untyped-call, no-any-return]


class _ReluDropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, p: float) -> Tensor:
        x, out = x.contiguous(), torch.empty_like(x, memory_format=torch.contiguous_format)
        size = x.shape[-1]
        kernel("relu_dropout", x.dtype)(x, out, byte_threshold(p), random_seed(), x.numel() // size, size)
        ctx.save_for_backward(out)
        ctx.scale = inverse_keep_rate(p)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (out,) = ctx.saved_tensors
        grad, grad_x = grad.contiguous(), torch.empty_like(out)
        kernel("relu_dropout_backward", out.dtype)(grad, out, ctx.scale, grad_x, out.numel())
        return grad_x, None


def activate(kind: FeedForwardKind, x: Tensor) -> Tensor:
    match kind:
        case "relu":
            return F.relu(x)
        case "gelu":
            return F.gelu(x)
        case "gelu_tanh":
            return F.gelu(x, approximate="tanh")
        case "swish":
            return F.silu(x)
        case "swiglu":
            gate, up = x.chunk(2, dim=-1)
            return F.silu(gate) * up
        case "geglu":
            gate, up = x.chunk(2, dim=-1)
            return F.gelu(gate, approximate="tanh") * up
        case _:
            assert_never(kind)
