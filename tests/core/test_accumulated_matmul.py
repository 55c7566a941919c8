"""The gradient of a matrix that is used at every step: equal to autograd's, computed once."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from regard.core.accumulated_matmul import AccumulatedMatmul


def chain(multiply: object, x: Tensor) -> Tensor:
    """Five steps, each fed with what the one before gave."""
    total = x.new_zeros(())
    for _ in range(5):
        x = torch.tanh(multiply(x))  # type: ignore[operator]
        total = total + (x * x).sum()
    return total


@pytest.mark.parametrize("shape", [(4, 4), (3, 4, 4)])
def test_gradients_are_those_of_plain_products(shape: tuple[int, ...]) -> None:
    torch.manual_seed(1)
    matrix = torch.randn(*shape, dtype=torch.float64, requires_grad=True)
    x = torch.randn(*shape[:-2], 2, 4, dtype=torch.float64, requires_grad=True)
    wanted = torch.autograd.grad(chain(lambda x: x @ matrix, x), (matrix, x))
    found = torch.autograd.grad(chain(AccumulatedMatmul(matrix), x), (matrix, x))
    for ours, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)


def test_it_agrees_with_finite_differences() -> None:
    torch.manual_seed(1)
    matrix, x = (torch.randn(3, 3, dtype=torch.float64, requires_grad=True) for _ in range(2))
    assert torch.autograd.gradcheck(lambda matrix, x: chain(AccumulatedMatmul(matrix), x), (matrix, x))


def test_the_gradient_reaches_the_inputs_of_the_matrix() -> None:
    weight = torch.randn(5, 3, requires_grad=True)
    x = torch.randn(2, 3)  # itself no part of what is learnt
    multiply = AccumulatedMatmul((2 * weight).T)
    (multiply(x) + multiply(x)).sum().backward()
    torch.testing.assert_close(weight.grad, 4 * x.sum(dim=0).expand(5, 3))


@pytest.mark.parametrize("steps", [0, 2])
def test_other_uses_of_the_matrix_count_too(steps: int) -> None:
    weight = torch.randn(3, 3, requires_grad=True)
    multiply = AccumulatedMatmul(weight)
    total = multiply.matrix.sum()
    for _ in range(steps):
        total = total + multiply(torch.ones(1, 3)).sum()
    total.backward()
    torch.testing.assert_close(weight.grad, torch.full((3, 3), 1.0 + steps))


def test_a_second_backward_does_not_count_the_first_again() -> None:
    weight = torch.randn(3, 3, requires_grad=True)
    loss = AccumulatedMatmul(weight)(torch.ones(2, 3)).sum()
    loss.backward(retain_graph=True)
    loss.backward()
    torch.testing.assert_close(weight.grad, torch.full((3, 3), 4.0))


def test_in_bf16_the_sum_over_the_steps_is_not_rounded_step_by_step() -> None:
    """256 + 1 + 1 + … stays 256 in bf16 when it is summed a step at a time."""
    weight = torch.zeros(1, 1, dtype=torch.bfloat16, requires_grad=True)
    multiply = AccumulatedMatmul(weight)
    inputs = [256.0] + [1.0] * 256
    sum(multiply(torch.full((1, 1), x, dtype=torch.bfloat16)) for x in inputs).backward()  # type: ignore[union-attr]
    assert weight.grad is not None
    assert weight.grad.item() == 512


def test_without_gradients_it_is_the_plain_product() -> None:
    matrix = torch.randn(3, 2)
    x = torch.randn(4, 3)
    assert torch.equal(AccumulatedMatmul(matrix)(x), x @ matrix)
    with torch.inference_mode():
        assert not AccumulatedMatmul(matrix.clone().requires_grad_()).needs_grad
