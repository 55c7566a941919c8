"""Recurrent cells, and layers that take them along a sentence.

The plain cell (Elman 1990), the gated recurrent unit (Cho et al. 2014) and long short-term memory (Hochreiter and
Schmidhuber 1997, with the forget gate of Gers et al. 2000), each written out. What a cell takes from its input does
not depend on the state, so it is one product for all steps; only the product with the state has to wait for the step
before. The state is kept in float32 at least: what a gate adds to it step by step would be lost in bf16.

Deviations: none from PyTorch's `nn.RNN`, `nn.GRU` and `nn.LSTM`, but that the plain cell and LSTM have one bias
instead of two that are added. GRU has two, since one of them stands behind the reset gate, where PyTorch has it.

Shapes: B batch, L length, I input, D units, G gates times units, S = D in one direction, 2 D in both.
"""

from __future__ import annotations

from typing import assert_never

import torch
from torch import Tensor, nn

from regard.config import CellKind
from regard.core.accumulated_matmul import Repeated
from regard.core.linear import Linear
from regard.core.taps import Tap

State = tuple[Tensor, ...]  # h_BD first, which is what the cell shows; LSTM's c_BD behind it
GATES: dict[CellKind, str] = {"rnn": "h", "gru": "rzn", "lstm": "ifgo"}  # in the order of the matrices' rows


def rnn_cell(from_input_BD: Tensor, from_state_BD: Tensor) -> State:
    """h' = tanh(W x + b + U h)"""
    return (torch.tanh(from_input_BD + from_state_BD),)


def gru_cell(from_input_BG: Tensor, from_state_BG: Tensor, h_BD: Tensor) -> State:
    """r = σ(W_r x + b_r + U_r h + u_r)                 how much of the past the candidate sees
    z = σ(W_z x + b_z + U_z h + u_z)                    how much of the past stays
    n = tanh(W_n x + b_n + r · (U_n h + u_n))           the candidate
    h' = (1 − z) · n + z · h
    """
    (x_r, x_z, x_n), (h_r, h_z, h_n) = from_input_BG.chunk(3, dim=-1), from_state_BG.chunk(3, dim=-1)
    r_BD, z_BD = torch.sigmoid(x_r + h_r), torch.sigmoid(x_z + h_z)
    n_BD = torch.tanh(x_n + r_BD * h_n)
    return (torch.lerp(n_BD, h_BD, z_BD),)


def lstm_cell(from_input_BG: Tensor, from_state_BG: Tensor, c_BD: Tensor) -> State:
    """i, f, o = σ(W x + b + U h), each with its own    what is let in, what is kept, what is shown
    g = tanh(W_g x + b_g + U_g h)                       the candidate
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
        """The state that a vector stands for: h = tanh x, and in LSTM c = x."""
        x_BD = x_BD.to(torch.promote_types(x_BD.dtype, torch.float32))
        return (torch.tanh(x_BD), x_BD) if self.kind == "lstm" else (torch.tanh(x_BD),)

    def transition(self, dtype: torch.dtype) -> Repeated:
        """U as it is needed for the steps of one pass."""
        return Repeated(self.recurrent.weight.to(dtype).T)

    def step(self, from_input_BG: Tensor, state: State, transition: Repeated) -> State:
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
        """h_BLD after each step, in the precision of the input, and the state after the last."""
        transition = self.transition(from_input_BLG.dtype)
        shown = []
        for from_input_BG in from_input_BLG.unbind(1):
            state = self.step(from_input_BG, state, transition)
            shown.append(state[0])
        return torch.stack(shown, dim=1).to(from_input_BLG.dtype), state


class RecurrentLayer(nn.Module):
    """A recurrence over whole sentences of different lengths, padded on the right; from both ends if asked.

    x_BLI in; out_BLS and what the layer was left with, last_BS, which has the h of each sentence's own last step. The
    way back begins at each sentence's own end: the sentences are turned round in place, so that their padding stays on
    the right, where it comes after everything that matters.
    """

    def __init__(self, kind: CellKind, d_input: int, d_model: int, both_ways: bool) -> None:
        super().__init__()
        self.forwards = Recurrence(kind, d_input, d_model)
        self.backwards = Recurrence(kind, d_input, d_model) if both_ways else None
        self.states = Tap()

    def forward(self, x_BLI: Tensor, lengths_B: Tensor) -> tuple[Tensor, Tensor]:
        outs = [self.pass_over(self.forwards, x_BLI)]
        lasts = [take_last(outs[0], lengths_B)]
        if self.backwards is not None:
            turned_BLD = self.pass_over(self.backwards, turn_round(x_BLI, lengths_B))
            outs.append(turn_round(turned_BLD, lengths_B))
            lasts.append(take_last(turned_BLD, lengths_B))
        return self.states(torch.cat(outs, dim=-1)), torch.cat(lasts, dim=-1)

    def pass_over(self, recurrence: Recurrence, x_BLI: Tensor) -> Tensor:
        state = recurrence.start(x_BLI.new_zeros(len(x_BLI), recurrence.d_model))
        return recurrence.run(recurrence.inputs(x_BLI), state)[0]


def turn_round(x_BLD: Tensor, lengths_B: Tensor) -> Tensor:
    """The first `length` places of each row in the opposite order; the padding behind stays where it is."""
    places_L = torch.arange(x_BLD.shape[1], device=x_BLD.device)
    lengths_B1 = lengths_B[:, None]
    from_BL = torch.where(places_L < lengths_B1, lengths_B1 - 1 - places_L, places_L)
    return x_BLD.gather(1, from_BL[:, :, None].expand_as(x_BLD))


def take_last(x_BLD: Tensor, lengths_B: Tensor) -> Tensor:
    """What stands at the last real place of each row: BD."""
    return x_BLD[torch.arange(len(x_BLD), device=x_BLD.device), lengths_B - 1]
