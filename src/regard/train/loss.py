"""The loss over the vocabulary, fused with its gradient, a slice of rows at a time.

Label-smoothed cross-entropy (the paper, section 5.4): the target probability is 1 − ε for the right token, and ε is
uniform over the vocabulary. With R-Drop (Liang et al. 2021) the batch passes through the model twice, and α times half
the symmetric Kullback–Leibler divergence of the two predictions of each position is added.

The logits of a whole batch would be the largest tensor by far, so they are never stored: each slice is projected, its
loss and gradient are computed, and only the gradients by the hidden vectors and the matrix are kept. The uniform part
of the smoothing does not touch the logits: its loss is −ε · (h · mean row of the matrix − log-sum-exp), and its
gradient is that row.

Shapes: N target positions (padding left out), P passes over them (1, or 2 with R-Drop), D model, V vocabulary, C rows
of a slice.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.core.int8 import fits
from regard.train.loss_kernels import slice_loss
from regard.train.vocabulary_matmul import Int8Products, PlainProducts

SLICE = 512  # rows: fewer are slower; more gain little and need more memory
# The last slice is padded to a multiple: oneDNN compiles and caches a primitive for every size of a product.
WHOLE = 64


class SummedLoss(NamedTuple):
    """Sums over the positions: `objective` is what is minimised, `nll` what perplexity is computed from."""

    objective: Tensor
    nll: Tensor


def vocabulary_loss(
    hidden_ND: Tensor,
    weight_VD: Tensor,
    targets_N: Tensor,
    smoothing: float = 0.0,
    r_drop: float = 0.0,
    bias_V: Tensor | None = None,
    in_int8: bool = False,
) -> SummedLoss:
    """Summed loss of predicting `targets` from `hidden` through `weight`, and `bias` if there is one.

    With `r_drop`, the first and second half of the rows are two passes over the same positions. `in_int8`: compute the
    products in int8 if the kernels support them.
    """
    if bias_V is not None:  # one more column, which every position sees as 1
        weight_VD = torch.cat([weight_VD, bias_V[:, None]], dim=1)
        hidden_ND = torch.cat([hidden_ND, hidden_ND.new_ones(len(hidden_ND), 1)], dim=1)
    learning = torch.is_grad_enabled() and (hidden_ND.requires_grad or weight_VD.requires_grad)
    # A bias may be much larger than the weights, and a row has one scale for both.
    in_int8 = in_int8 and bias_V is None and fits(hidden_ND[:SLICE], weight_VD)
    products = Int8Products if in_int8 else PlainProducts
    objective, nll = _VocabularyLoss.apply(hidden_ND, weight_VD, targets_N, smoothing, r_drop, learning, products)  # type: ignore[no-untyped-call]
    return SummedLoss(objective, nll)


class _VocabularyLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden_ND: Tensor,
        weight_VD: Tensor,
        targets_N: Tensor,
        smoothing: float,
        r_drop: float,
        learning: bool,
        build_products: type[PlainProducts | Int8Products],
    ) -> tuple[Tensor, Tensor]:
        exact = torch.promote_types(hidden_ND.dtype, torch.float32)
        products = build_products(weight_VD, hidden_ND.dtype)
        mean_row_D = weight_VD.mean(dim=0, dtype=exact)
        grad_hidden_ND = hidden_ND.new_empty(hidden_ND.shape) if learning else None
        grad_weight_VD = weight_VD.new_zeros(weight_VD.shape, dtype=exact) if learning else None
        objective, nll = hidden_ND.new_zeros((), dtype=exact), hidden_ND.new_zeros((), dtype=exact)
        passes, size = 2 if r_drop else 1, hidden_ND.shape[1]
        hidden_PND, targets_PN = hidden_ND.reshape(passes, -1, size), targets_N.reshape(passes, -1)
        for rows in slices(hidden_PND.shape[1], SLICE // passes):
            real = rows.stop - rows.start
            empty = -real % WHOLE
            hidden_CD = F.pad(hidden_PND[:, rows], (0, 0, 0, empty)).flatten(0, 1).contiguous()
            targets_C = F.pad(targets_PN[:, rows], (0, empty)).flatten()
            found = slice_loss(products.logits(hidden_CD), targets_C, 1 - smoothing, r_drop / 2)
            right, log_sum = (x.view(passes, -1)[:, :real].sum() for x in (found.logp_right_C, found.log_sum_C))
            even = (hidden_CD.to(exact) @ mean_row_D).sum() - log_sum
            nll -= right
            objective -= (1 - smoothing) * right + smoothing * even
            if found.divergence is not None:  # an empty row does not differ from itself
                objective += r_drop / 2 * found.divergence
            if grad_hidden_ND is not None and grad_weight_VD is not None:
                found.grad_CV.view(passes, -1, len(weight_VD))[:, real:] = 0  # nor may an empty row set a scale
                by_hidden_CD = products.backward(found.grad_CV, hidden_CD, grad_weight_VD)
                grad_hidden_ND.view(hidden_PND.shape)[:, rows] = by_hidden_CD.view(passes, -1, size)[:, :real]
        if smoothing and grad_hidden_ND is not None and grad_weight_VD is not None:
            grad_hidden_ND -= (smoothing * mean_row_D).to(grad_hidden_ND.dtype)
            grad_weight_VD -= smoothing / len(weight_VD) * hidden_ND.sum(dim=0, dtype=exact)
        ctx.gradients = (grad_hidden_ND, grad_weight_VD)
        ctx.mark_non_differentiable(nll)
        return objective, nll

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        grad_hidden_ND, grad_weight_VD = ctx.gradients
        return grad_hidden_ND.mul_(grad.to(grad_hidden_ND.dtype)), grad_weight_VD.mul_(grad), *[None] * 5


def slices(count: int, size: int) -> list[slice]:
    return [slice(start, min(start + size, count)) for start in range(0, count, size)]
