"""The matrix products of the loss over the vocabulary, a slice of positions at a time: in PyTorch or in int8.

Three per slice: hidden vectors to logits; the logits' gradient back to the hidden vectors and to the weight matrix,
whose gradient is summed over the slices.

Shapes: C rows of a slice, D model, V vocabulary.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.core.int8 import multiply, multiply_onto, pack_columns, pack_rows
from regard.kernels.training import random_seed


class PlainProducts:
    """With PyTorch's operators, in the dtype of the hidden vectors."""

    def __init__(self, weight_VD: Tensor, dtype: torch.dtype) -> None:
        self.weight_VD = weight_VD.to(dtype)

    def logits(self, hidden_CD: Tensor) -> Tensor:
        return hidden_CD @ self.weight_VD.T

    def backward(self, grad_CV: Tensor, hidden_CD: Tensor, grad_weight_VD: Tensor) -> Tensor:
        """The gradient by the hidden vectors; the gradient by the matrix is added to the last argument."""
        grad_weight_VD += grad_CV.T @ hidden_CD
        return grad_CV @ self.weight_VD


class Int8Products:
    """The same in int8 (core/int8.py): the matrix is packed once for all slices."""

    def __init__(self, weight_VD: Tensor, dtype: torch.dtype) -> None:
        weight_VD = weight_VD.contiguous()
        self.forwards, columns = pack_rows(weight_VD, left=False)
        self.backwards = pack_columns(weight_VD, columns, left=False)
        self.dtype = dtype

    def logits(self, hidden_CD: Tensor) -> Tensor:
        left, self.hidden_columns = pack_rows(hidden_CD, left=True)  # for `backward` of this slice
        return multiply(left, self.forwards, self.dtype)

    def backward(self, grad_CV: Tensor, hidden_CD: Tensor, grad_weight_VD: Tensor) -> Tensor:
        # Most of a row is tiny beside the right token's entry, and most of a column beside the rows where its token is
        # right: stochastic rounding keeps the mean of the tiny entries.
        left, columns = pack_rows(grad_CV, left=True, seed=random_seed() | 1)
        by_weight = pack_columns(grad_CV, columns, left=True, seed=random_seed() | 1)
        hidden = pack_columns(hidden_CD, self.hidden_columns, left=False)
        multiply_onto(grad_weight_VD, by_weight, hidden)
        return multiply(left, self.backwards, self.dtype)
