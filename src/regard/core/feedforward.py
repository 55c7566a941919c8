"""The position-wise feed-forward network (the paper, section 3.3), and the gated ones of Shazeer 2020.

Shapes: B batch, L length, D model, F feed-forward.
"""

from __future__ import annotations

from typing import assert_never

import torch.nn.functional as F
from torch import Tensor, nn

from regard.config import FeedForwardKind
from regard.core.dropout import Dropout
from regard.core.linear import Linear
from regard.core.taps import Tap

GATED: tuple[FeedForwardKind, ...] = ("swiglu", "geglu")


class FeedForward(nn.Module):
    """relu, gelu, gelu_tanh, swish:  W₂ f(W₁ x + b₁) + b₂.
    swiglu, geglu:  W₂ (f(W_gate x + b_gate) · (W_up x + b_up)) + b₂, where f is silu or gelu_tanh.

    Gate and up are one matrix. x_BLD in, BLD out.
    """

    def __init__(self, d_model: int, d_ff: int, kind: FeedForwardKind, dropout: float, bias: bool = True) -> None:
        super().__init__()
        self.kind = kind
        self.up = Linear(d_model, 2 * d_ff if kind in GATED else d_ff, bias)
        self.down = Linear(d_ff, d_model, bias)
        self.dropout = Dropout(dropout)
        self.ffn_hidden, self.ffn_out = Tap(), Tap()

    def forward(self, x_BLD: Tensor) -> Tensor:
        hidden_BLF = self.ffn_hidden(activate(self.kind, self.up(x_BLD)))
        return self.ffn_out(self.down(self.dropout(hidden_BLF)))  # type: ignore[no-any-return]


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
