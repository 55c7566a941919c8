"""Embeddings and the linear map."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from regard.core.embeddings import Embedding
from regard.core.linear import Linear


def test_embed_multiplies_by_the_root_of_d_model_and_project_does_not() -> None:
    embedding = Embedding(7, 9).double()
    with torch.no_grad():
        embedding.weight.normal_(generator=torch.Generator().manual_seed(0))
    ids = torch.tensor([[3, 1], [0, 6]])
    assert torch.equal(embedding(ids), torch.stack([embedding.weight[row] for row in ids]) * 3.0)
    assert embedding.scale == math.sqrt(9)
    hidden = torch.randn(2, 4, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(embedding.project(hidden), hidden @ embedding.weight.T, rtol=0, atol=1e-12)


def test_another_scale() -> None:
    embedding = Embedding(7, 9, scale=1.0)
    with torch.no_grad():
        embedding.weight.normal_(generator=torch.Generator().manual_seed(0))
    assert torch.equal(embedding(torch.tensor([3])), embedding.weight[[3]])


def test_linear_computes_in_the_dtype_of_its_input_and_keeps_its_weights() -> None:
    torch.manual_seed(0)
    layer = Linear(6, 4)
    with torch.no_grad():
        layer.weight.normal_()
        layer.bias.normal_()
    x = torch.randn(5, 6)
    torch.testing.assert_close(layer(x), x @ layer.weight.T + layer.bias)
    y = layer(x.bfloat16())
    assert y.dtype == torch.bfloat16
    expected = F.linear(x.bfloat16(), layer.weight.bfloat16(), layer.bias.bfloat16())
    assert torch.equal(y, expected)
    y.sum().backward()
    assert layer.weight.grad is not None
    assert layer.weight.grad.dtype == layer.weight.dtype == torch.float32
    torch.testing.assert_close(layer.weight.grad[0], x.sum(0), rtol=0.02, atol=0.02)
