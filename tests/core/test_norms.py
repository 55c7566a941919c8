"""Norms against their formulas and against PyTorch's."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.core.norms import LayerNorm, RMSNorm, build_norm


def random_norm(norm: nn.Module) -> nn.Module:
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in norm.double().parameters():
            parameter.normal_()
    return norm


X = torch.randn(3, 5, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(1)) * 3 + 2


def close(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-12)


def test_layer_norm_is_its_formula() -> None:
    norm = random_norm(LayerNorm(8))
    mean = X.sum(-1, keepdim=True) / 8
    variance = ((X - mean) ** 2).sum(-1, keepdim=True) / 8
    expected = (X - mean) / (variance + 1e-5).sqrt() * norm.weight + norm.bias
    close(norm(X), expected)
    close(norm(X), F.layer_norm(X, (8,), norm.weight, norm.bias))


def test_rms_norm_is_its_formula() -> None:
    norm = random_norm(RMSNorm(8))
    expected = X / ((X**2).sum(-1, keepdim=True) / 8 + 1e-6).sqrt() * norm.weight
    close(norm(X), expected)
    theirs = nn.RMSNorm(8, eps=1e-6, dtype=torch.float64)
    with torch.no_grad():
        theirs.weight.copy_(norm.weight)
    close(norm(X), theirs(X))


def test_another_epsilon() -> None:
    small = X * 1e-3
    variance = small.var(-1, keepdim=True, correction=0)
    layer, rms = build_norm("layernorm", 8, 1e-3).double(), build_norm("rmsnorm", 8, 1e-3).double()
    close(layer(small), (small - small.mean(-1, keepdim=True)) / (variance + 1e-3).sqrt())
    close(rms(small), small / (small.square().mean(-1, keepdim=True) + 1e-3).sqrt())


def test_invariances_of_each_norm() -> None:
    layer, rms = LayerNorm(8).double(), RMSNorm(8).double()
    torch.testing.assert_close(layer(X * 5 + 7), layer(X), rtol=0, atol=1e-4)
    torch.testing.assert_close(rms(X * 5), rms(X), rtol=0, atol=1e-4)
    assert (rms(X + 7) - rms(X)).abs().max() > 0.1


@pytest.mark.parametrize("kind", ["layernorm", "rmsnorm"])
def test_statistics_of_bf16_input_are_better_than_bf16(kind: str) -> None:
    """300 squares of 16 would sum to less in bf16, which has 8 bits; gradients come back in the weights' precision."""
    norm = build_norm(kind, 300)  # type: ignore[arg-type]
    x = torch.full((1, 300), 16.0)
    x[:, ::2] *= -1
    y = norm(x.bfloat16())
    assert y.dtype == torch.bfloat16
    torch.testing.assert_close(y.float(), norm(x), rtol=0, atol=4e-3)
    y.square().sum().backward()
    assert all(p.grad is not None and p.grad.dtype == torch.float32 for p in norm.parameters())


def test_build_norm() -> None:
    assert isinstance(build_norm("layernorm", 4), LayerNorm)
    assert isinstance(build_norm("rmsnorm", 4), RMSNorm)


def test_an_unknown_norm_is_refused() -> None:
    with pytest.raises(AssertionError, match="'batchnorm'"):
        build_norm("batchnorm", 8)  # type: ignore[arg-type]
