"""The cells equal PyTorch's; a layer treats each sentence of a batch as if it were alone."""

from __future__ import annotations

from typing import get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from regard.config import CellKind
from regard.core.recurrent import GATES, Recurrence, RecurrentLayer, last_positions, reverse_sequences

KINDS: tuple[CellKind, ...] = get_args(CellKind)
THEIRS = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}
every_kind = pytest.mark.parametrize("kind", KINDS)
both = pytest.mark.parametrize("bidirectional", [False, True])


def close(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-10)


def copy_weights(ours: Recurrence, theirs: nn.RNNBase, suffix: str = "") -> None:
    """Their two biases are one of ours, except in GRU."""
    named = dict(theirs.named_parameters())
    with torch.no_grad():
        ours.inputs.weight.copy_(named[f"weight_ih_l0{suffix}"])
        ours.recurrent.weight.copy_(named[f"weight_hh_l0{suffix}"])
        ours.inputs.bias.copy_(named[f"bias_ih_l0{suffix}"])
        if ours.kind == "gru":
            ours.recurrent.bias.copy_(named[f"bias_hh_l0{suffix}"])
        else:
            ours.inputs.bias.add_(named[f"bias_hh_l0{suffix}"])


def pair(kind: CellKind, d_input: int, d_model: int, bidirectional: bool) -> tuple[RecurrentLayer, nn.RNNBase]:
    torch.manual_seed(1)
    theirs: nn.RNNBase = THEIRS[kind](d_input, d_model, batch_first=True, bidirectional=bidirectional).double()
    ours = RecurrentLayer(kind, d_input, d_model, bidirectional).double()
    copy_weights(ours.forwards, theirs)
    if ours.backwards is not None:
        copy_weights(ours.backwards, theirs, "_reverse")
    return ours, theirs


@both
@every_kind
def test_a_layer_equals_pytorchs_in_values_and_gradients(kind: CellKind, bidirectional: bool) -> None:
    ours, theirs = pair(kind, 5, 7, bidirectional)
    x = torch.randn(3, 6, 5, dtype=torch.float64)
    x_ours, x_theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    out, last = ours(x_ours, torch.tensor([6, 6, 6]))
    expected, left = theirs(x_theirs)
    h = left[0] if kind == "lstm" else left
    close(out, expected)
    close(last, torch.cat(list(h), dim=-1))
    probe = torch.randn_like(out)
    (out * probe).sum().backward()
    (expected * probe).sum().backward()
    assert x_ours.grad is not None
    assert x_theirs.grad is not None
    close(x_ours.grad, x_theirs.grad)
    close(ours.forwards.inputs.weight.grad, theirs.weight_ih_l0.grad)  # type: ignore[arg-type, union-attr]
    close(ours.forwards.recurrent.weight.grad, theirs.weight_hh_l0.grad)  # type: ignore[arg-type, union-attr]
    close(ours.forwards.inputs.bias.grad, theirs.bias_ih_l0.grad)  # type: ignore[arg-type, union-attr]


@both
@every_kind
def test_padded_sentences_equal_pytorchs_packed_ones(kind: CellKind, bidirectional: bool) -> None:
    ours, theirs = pair(kind, 5, 7, bidirectional)
    lengths = torch.tensor([6, 4, 1])
    x = torch.randn(3, 6, 5, dtype=torch.float64)
    out, last = ours(x, lengths)
    packed, left = theirs(nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True))
    expected = nn.utils.rnn.pad_packed_sequence(packed, batch_first=True)[0]
    for row, length in enumerate(lengths.tolist()):
        close(out[row, :length], expected[row, :length])
    close(last, torch.cat(list(left[0] if kind == "lstm" else left), dim=-1))


@every_kind
def test_steps_from_a_given_state_equal_pytorchs(kind: CellKind) -> None:
    ours, theirs = pair(kind, 4, 3, False)
    recurrence = ours.forwards
    x = torch.randn(2, 5, 4, dtype=torch.float64)
    state = recurrence.start(torch.randn(2, 3, dtype=torch.float64))
    given_state = tuple(part[None] for part in state)
    expected, left = theirs(x, given_state if kind == "lstm" else given_state[0])
    transition = recurrence.transition(x.dtype)
    for place in range(5):
        state = recurrence.step(recurrence.inputs(x[:, place]), state, transition)
        close(state[0], expected[:, place])
    for part, theirs_part in zip(state, left if kind == "lstm" else (left,), strict=True):
        close(part, theirs_part[0])


@both
@every_kind
@given(lengths=st.lists(st.integers(1, 6), min_size=1, max_size=4), extra=st.integers(0, 3))
@settings(max_examples=15, deadline=None)
def test_padding_and_batch_mates_change_nothing(
    kind: CellKind, bidirectional: bool, lengths: list[int], extra: int
) -> None:
    torch.manual_seed(len(lengths))
    layer = RecurrentLayer(kind, 3, 4, bidirectional).double()
    for parameter in layer.parameters():
        nn.init.normal_(parameter)
    x = torch.randn(len(lengths), max(lengths) + extra, 3, dtype=torch.float64)
    out, last = layer(x, torch.tensor(lengths))
    for row, length in enumerate(lengths):
        alone, alone_last = layer(x[row : row + 1, :length], torch.tensor([length]))
        close(out[row, :length], alone[0])
        close(last[row], alone_last[0])


def test_reversing_keeps_the_padding_and_is_its_own_inverse() -> None:
    x = torch.tensor([[1, 2, 3, 0], [4, 0, 0, 0], [5, 6, 7, 8]])[:, :, None]
    lengths = torch.tensor([3, 1, 4])
    turned = reverse_sequences(x, lengths)
    assert turned[:, :, 0].tolist() == [[3, 2, 1, 0], [4, 0, 0, 0], [8, 7, 6, 5]]
    assert torch.equal(reverse_sequences(turned, lengths), x)
    assert last_positions(x, lengths)[:, 0].tolist() == [3, 4, 8]


@every_kind
def test_in_bf16_the_state_is_kept_in_float32(kind: CellKind) -> None:
    recurrence = Recurrence(kind, 4, 3)
    for parameter in recurrence.parameters():
        nn.init.normal_(parameter)
    x = torch.randn(2, 5, 4, dtype=torch.bfloat16)
    out, state = recurrence.run(recurrence.inputs(x), recurrence.start(x.new_zeros(2, 3)))
    assert out.dtype == torch.bfloat16
    assert {part.dtype for part in state} == {torch.float32}
    exact, _ = recurrence.run(recurrence.inputs(x.float()), recurrence.start(torch.zeros(2, 3)))
    torch.testing.assert_close(out.float(), exact, rtol=0, atol=0.1)
    out.sum().backward()
    assert {parameter.grad.dtype for parameter in recurrence.parameters()} == {torch.float32}  # type: ignore[union-attr]


def test_gates_are_in_pytorchs_order() -> None:
    """An LSTM with closed input and forget gates outputs zero; with an open forget gate it keeps its state."""
    assert GATES["lstm"].index("f") == 1
    recurrence = Recurrence("lstm", 1, 1).double()
    for parameter in recurrence.parameters():
        nn.init.zeros_(parameter)
    kept = torch.tensor([[0.7]], dtype=torch.float64)
    for forget, expected in ((-50.0, 0.0), (50.0, 0.7)):
        bias = torch.tensor([-50.0, forget, 0.0, 50.0], dtype=torch.float64)
        recurrence.inputs.bias.data = bias
        _, (h, c) = recurrence.run(recurrence.inputs(torch.zeros(1, 1, 1, dtype=torch.float64)), (kept, kept))
        close(c, torch.tensor([[expected]], dtype=torch.float64))
        close(h, torch.tanh(c))


def test_an_unknown_cell_is_refused() -> None:
    cell = Recurrence("rnn", 3, 4)
    cell.kind = "mgu"  # type: ignore[assignment]
    with pytest.raises(AssertionError, match="'mgu'"):
        cell.run(torch.zeros(1, 2, 4), cell.start(torch.zeros(1, 4)))
