"""Recurrent cells and layers.

The plain cell (Elman 1990), the gated recurrent unit (Cho et al. 2014) and long short-term memory (Hochreiter and
Schmidhuber 1997, with the forget gate of Gers et al. 2000). The product with the input does not depend on the state, so
it is computed once for all steps; only the product with the state is computed step by step. The state is in float32 at
least: in bf16, small updates would be lost.

Deviations from PyTorch's `nn.RNN`, `nn.GRU` and `nn.LSTM`: the plain cell and the LSTM have one bias instead of two
that are added. The GRU has two, because one of them is inside the product with the reset gate, as in PyTorch.

Shapes: B batch, L length, I input, D units, G gates times units, S = D in one direction, 2 D in both.
"""

from __future__ import annotations

from typing import assert_never

import torch
from torch import Tensor, nn

from regard.config import CellKind
from regard.core.accumulated_matmul import AccumulatedMatmul
from regard.core.linear import Linear
from regard.core.taps import Tap

State = tuple[Tensor, ...]  # h_BD, the output of the cell; for LSTM, then c_BD
GATES: dict[CellKind, str] = {"rnn": "h", "gru": "rzn", "lstm": "ifgo"}  # in the order of the matrices' rows


def rnn_cell(from_input_BD: Tensor, from_state_BD: Tensor) -> State:
    """h' = tanh(W x + b + U h)"""
    return (torch.tanh(from_input_BD + from_state_BD),)


def gru_cell(from_input_BG: Tensor, from_state_BG: Tensor, h_BD: Tensor) -> State:
    """r = σ(W_r x + b_r + U_r h + u_r)                 reset gate
    z = σ(W_z x + b_z + U_z h + u_z)                    update gate
    n = tanh(W_n x + b_n + r · (U_n h + u_n))           candidate state
    h' = (1 − z) · n + z · h
    """
    (x_r, x_z, x_n), (h_r, h_z, h_n) = from_input_BG.chunk(3, dim=-1), from_state_BG.chunk(3, dim=-1)
    r_BD, z_BD = torch.sigmoid(x_r + h_r), torch.sigmoid(x_z + h_z)
    n_BD = torch.tanh(x_n + r_BD * h_n)
    return (torch.lerp(n_BD, h_BD, z_BD),)


def lstm_cell(from_input_BG: Tensor, from_state_BG: Tensor, c_BD: Tensor) -> State:
    """i, f, o = σ(W x + b + U h), each with its own    input, forget and output gates
    g = tanh(W_g x + b_g + U_g h)                       candidate state
    c' = f · c + i · g
    h' = o · tanh(c')
    """
    i_BD, f_BD, g_BD, o_BD = (from_input_BG + from_state_BG).chunk(4, dim=-1)
    c_BD = torch.sigmoid(f_BD) * c_BD + torch.sigmoid(i_BD) * torch.tanh(g_BD)
    return torch.sigmoid(o_BD) * torch.tanh(c_BD), c_BD


class Recurrence(nn.Module):
    """A cell with its weights: W x + b for all steps at once (`inputs`), then U h (+ u) step by step (`run`)."""

    def __init__(self, kind: CellKind, d_input: int, d_model: int) -> None:
        super().__init__()
        self.kind, self.d_model, self.n_gates = kind, d_model, len(GATES[kind])
        self.inputs = Linear(d_input, self.n_gates * d_model)
        self.recurrent = Linear(d_model, self.n_gates * d_model, bias=kind == "gru")

    def start(self, x_BD: Tensor) -> State:
        """The initial state from a vector: h = tanh x, and for LSTM c = x."""
        x_BD = x_BD.to(torch.promote_types(x_BD.dtype, torch.float32))
        return (torch.tanh(x_BD), x_BD) if self.kind == "lstm" else (torch.tanh(x_BD),)

    def transition(self, dtype: torch.dtype) -> AccumulatedMatmul:
        """The product with U, for the steps of one pass."""
        return AccumulatedMatmul(self.recurrent.weight.to(dtype).T)

    def step(self, from_input_BG: Tensor, state: State, transition: AccumulatedMatmul) -> State:
        h_BD = state[0]
        from_state_BG = transition(h_BD.to(from_input_BG.dtype)).to(h_BD.dtype)
        from_input_BG = from_input_BG.to(h_BD.dtype)
        match self.kind:
            case "rnn":
                return rnn_cell(from_input_BG, from_state_BG)
            case "gru":
                return gru_cell(from_input_BG, from_state_BG + self.recurrent.bias.to(h_BD.dtype), h_BD)
            case "lstm":
                return lstm_cell(from_input_BG, from_state_BG, state[1])
            case _:
                assert_never(self.kind)

    def run(self, from_input_BLG: Tensor, state: State) -> tuple[Tensor, State]:
        """h_BLD after each step, in the dtype of the input, and the state after the last."""
        transition = self.transition(from_input_BLG.dtype)
        outputs = []
        for from_input_BG in from_input_BLG.unbind(1):
            state = self.step(from_input_BG, state, transition)
            outputs.append(state[0])
        return torch.stack(outputs, dim=1).to(from_input_BLG.dtype), state


class RecurrentLayer(nn.Module):
    """A recurrence over sentences of different lengths, padded on the right; in both directions if `bidirectional`.

    x_BLI in; out_BLS, and last_BS with the h of each sentence's last step. The backward direction starts at the end of
    each sentence: the sentences are reversed and the padding stays on the right, so it never affects a token.
    """

    def __init__(self, kind: CellKind, d_input: int, d_model: int, bidirectional: bool) -> None:
        super().__init__()
        self.forwards = Recurrence(kind, d_input, d_model)
        self.backwards = Recurrence(kind, d_input, d_model) if bidirectional else None
        self.states = Tap()

    def forward(self, x_BLI: Tensor, lengths_B: Tensor) -> tuple[Tensor, Tensor]:
        outs = [self.run_direction(self.forwards, x_BLI)]
        lasts = [last_positions(outs[0], lengths_B)]
        if self.backwards is not None:
            reversed_BLD = self.run_direction(self.backwards, reverse_sequences(x_BLI, lengths_B))
            outs.append(reverse_sequences(reversed_BLD, lengths_B))
            lasts.append(last_positions(reversed_BLD, lengths_B))
        return self.states(torch.cat(outs, dim=-1)), torch.cat(lasts, dim=-1)

    def run_direction(self, recurrence: Recurrence, x_BLI: Tensor) -> Tensor:
        state = recurrence.start(x_BLI.new_zeros(len(x_BLI), recurrence.d_model))
        return recurrence.run(recurrence.inputs(x_BLI), state)[0]


def reverse_sequences(x_BLD: Tensor, lengths_B: Tensor) -> Tensor:
    """The first `length` positions of each row in reverse order; the padding after them stays."""
    positions_L = torch.arange(x_BLD.shape[1], device=x_BLD.device)
    lengths_B1 = lengths_B[:, None]
    from_BL = torch.where(positions_L < lengths_B1, lengths_B1 - 1 - positions_L, positions_L)
    return x_BLD.gather(1, from_BL[:, :, None].expand_as(x_BLD))


def last_positions(x_BLD: Tensor, lengths_B: Tensor) -> Tensor:
    """The vector at the last position of each row that is not padding: BD."""
    return x_BLD[torch.arange(len(x_BLD), device=x_BLD.device), lengths_B - 1]
