"""The feed-forward network against its formulas."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.config import FeedForwardKind
from regard.core.feedforward import FeedForward, activate, relu_dropout
from regard.core.taps import record
from regard.kernels.loader import library
from regard.kernels.training import TRAINING


def network(kind: FeedForwardKind, dropout: float = 0.0) -> FeedForward:
    torch.manual_seed(0)
    ffn = FeedForward(6, 10, kind, dropout).double()
    with torch.no_grad():
        for parameter in ffn.parameters():
            parameter.normal_()
    return ffn


X = torch.randn(3, 5, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def close(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-10)


def test_it_is_two_convolutions_of_width_one() -> None:
    """As the paper puts it in section 3.3."""
    ffn = network("relu")
    first, second = nn.Conv1d(6, 10, 1, dtype=torch.float64), nn.Conv1d(10, 6, 1, dtype=torch.float64)
    with torch.no_grad():
        first.weight.copy_(ffn.up.weight[:, :, None])
        first.bias.copy_(ffn.up.bias)  # type: ignore[union-attr]
        second.weight.copy_(ffn.down.weight[:, :, None])
        second.bias.copy_(ffn.down.bias)  # type: ignore[union-attr]
    close(ffn(X), second(F.relu(first(X.mT))).mT)


def test_gelu_is_exact() -> None:
    ffn = network("gelu")
    hidden = X @ ffn.up.weight.T + ffn.up.bias
    hidden = hidden * 0.5 * (1 + torch.erf(hidden / math.sqrt(2)))
    close(ffn(X), hidden @ ffn.down.weight.T + ffn.down.bias)


def test_gelu_tanh_is_gpt_2s() -> None:
    ffn = network("gelu_tanh")
    hidden = X @ ffn.up.weight.T + ffn.up.bias
    hidden = 0.5 * hidden * (1 + torch.tanh(math.sqrt(2 / math.pi) * (hidden + 0.044715 * hidden**3)))
    close(ffn(X), hidden @ ffn.down.weight.T + ffn.down.bias)


def test_swiglu() -> None:
    ffn = network("swiglu")
    gate, up = X @ ffn.up.weight[:10].T + ffn.up.bias[:10], X @ ffn.up.weight[10:].T + ffn.up.bias[10:]
    close(ffn(X), (gate * torch.sigmoid(gate) * up) @ ffn.down.weight.T + ffn.down.bias)


@pytest.mark.parametrize("kind", ["relu", "gelu", "swiglu"])
def test_positions_do_not_mix(kind: FeedForwardKind) -> None:
    ffn = network(kind)
    order = torch.tensor([4, 2, 0, 1, 3])
    close(ffn(X[:, order]), ffn(X)[:, order])


def test_dropout_is_on_the_hidden_layer() -> None:
    ffn = network("relu", dropout=0.5)
    still = ffn.eval()(X)
    assert torch.equal(still, ffn(X))
    ffn.train()
    # With W₂ = 0 only the bias is left: dropout comes before it, not after.
    with torch.no_grad():
        ffn.down.weight.zero_()
    close(ffn(X), ffn.down.bias.expand(3, 5, 6))
    assert not torch.equal(network("relu", dropout=0.5)(X), still)


def test_swish_is_silu_without_a_gate() -> None:
    ffn = network("swish")
    hidden = X @ ffn.up.weight.T + ffn.up.bias
    close(ffn(X), (hidden * torch.sigmoid(hidden)) @ ffn.down.weight.T + ffn.down.bias)


def test_geglu_gates_by_gelu_in_its_tanh_form() -> None:
    ffn = network("geglu")
    gate, up = (X @ ffn.up.weight.T + ffn.up.bias).chunk(2, dim=-1)
    gate = 0.5 * gate * (1 + torch.tanh(math.sqrt(2 / math.pi) * (gate + 0.044715 * gate**3)))
    close(ffn(X), (gate * up) @ ffn.down.weight.T + ffn.down.bias)


def test_without_biases() -> None:
    ffn = FeedForward(6, 10, "relu", 0.0, bias=False).double()
    torch.nn.init.normal_(ffn.up.weight)
    torch.nn.init.normal_(ffn.down.weight)
    close(ffn(X), (X @ ffn.up.weight.T).relu() @ ffn.down.weight.T)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_relu_and_its_dropout_are_one_kernel_with_the_same_gradient(dtype: torch.dtype) -> None:
    """With the mask read from the kernel's output, PyTorch's operators give the same."""
    assert library(TRAINING) is not None, "this test needs a C++ compiler"
    torch.manual_seed(5)
    ffn = FeedForward(8, 64, "relu", 0.3)
    for parameter in ffn.parameters():
        nn.init.normal_(parameter)
    up = torch.randn(50, 20, 64).to(dtype).requires_grad_()
    assert ffn.can_fuse(up)
    dropped = relu_dropout(up, ffn.dropout.p)
    positive, rate = up.detach() > 0, 77 / 256
    kept = dropped > 0
    assert not kept[~positive].any()
    assert abs(1 - kept[positive].float().mean().item() - rate) < 0.01
    centred = torch.where(positive, kept.float() - (1 - rate), 0.0)
    for dim, by in ((0, 1), (1, 1), (2, 1), (2, 8)):
        assert abs((centred * centred.roll(by, dim)).mean() / centred.var()) < 0.02
    expected = F.relu(up) * (kept / (1 - rate)).to(dtype)
    torch.testing.assert_close(dropped, expected, rtol=0.01 if dtype == torch.bfloat16 else 1e-5, atol=0)
    weight = torch.randn(up.shape).to(dtype)
    (ours,), (theirs,) = (torch.autograd.grad(out, up, weight) for out in (dropped, expected))
    torch.testing.assert_close(ours, theirs, rtol=0.01 if dtype == torch.bfloat16 else 1e-5, atol=0)


def test_the_tap_of_the_hidden_units_is_before_dropout() -> None:
    ffn = FeedForward(6, 32, "relu", 0.5)
    for parameter in ffn.parameters():
        nn.init.normal_(parameter)
    x = X.float()
    with record(ffn, "ffn_hidden") as trace:
        ffn(x)
    torch.testing.assert_close(trace["ffn_hidden"], F.relu(ffn.up(x)))
    still = ffn.eval()(x)
    torch.testing.assert_close(still, ffn.down(F.relu(ffn.up(x))))


@pytest.mark.parametrize("kind", ["relu", "swiglu"])
def test_in_blocks_it_is_the_same_network_with_the_same_dropout_in_both_passes(kind: FeedForwardKind) -> None:
    whole, parts = network(kind, 0.3).train(), network(kind, 0.3).train()
    parts.load_state_dict(whole.state_dict())
    parts.block = 2
    x = torch.randn(2, 5, 6, dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(parts.eval()(x), whole.eval()(x), rtol=0, atol=1e-12)
    parts.train()
    torch.manual_seed(4)
    out = parts(x)
    grads = torch.autograd.grad(out.sum(), [x, *parts.parameters()])
    torch.manual_seed(4)
    again = torch.cat([whole.train()(part) for part in x.split(2, dim=1)], dim=1)
    torch.testing.assert_close(out, again, rtol=0, atol=1e-12)
    for one, other in zip(grads, torch.autograd.grad(again.sum(), [x, *whole.parameters()]), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(AssertionError, match="'tanh'"):
        activate("tanh", X)  # type: ignore[arg-type]
