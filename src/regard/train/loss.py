"""The loss over the vocabulary, its gradient fused in, a slice of rows at a time.

Cross-entropy against a target smoothed by ε (the paper, section 5.4): 1 − ε on the right token, ε spread evenly.
With R-Drop (Liang et al. 2021) the batch goes through the model twice, and the two predictions of each position
are also drawn towards each other by α times half the symmetric Kullback–Leibler divergence.

The logits of a whole batch are its largest tensor by far, so they never exist: each slice is projected, its loss
and gradient are computed, and only the gradients of the hidden vectors and of the matrix are kept. The even part
of the smoothing never touches a logit: its loss is −ε · (h · mean row of the matrix − log-sum-exp), and its
gradient is that row.

Shapes: N target positions (padding left out), D model, V vocabulary, C rows of a slice.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.train.loss_kernels import slice_loss

SLICE = 512  # rows: fewer are slower; more gain little and hold more logits at once


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
) -> SummedLoss:
    """Summed loss of predicting `targets` from `hidden` through `weight`, and `bias` if there is one.

    With `r_drop`, the first and second half of the rows are two passes over the same positions.
    """
    if bias_V is not None:  # one more column, which every position sees as 1
        weight_VD = torch.cat([weight_VD, bias_V[:, None]], dim=1)
        hidden_ND = torch.cat([hidden_ND, hidden_ND.new_ones(len(hidden_ND), 1)], dim=1)
    learning = torch.is_grad_enabled() and (hidden_ND.requires_grad or weight_VD.requires_grad)
    objective, nll = _VocabularyLoss.apply(hidden_ND, weight_VD, targets_N, smoothing, r_drop, learning)  # type: ignore[no-untyped-call]
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
    ) -> tuple[Tensor, Tensor]:
        exact = torch.promote_types(hidden_ND.dtype, torch.float32)
        weight = weight_VD.to(hidden_ND.dtype)
        mean_row_D = weight_VD.mean(dim=0, dtype=exact)
        grad_hidden_ND = torch.empty_like(hidden_ND) if learning else None
        grad_weight_VD = torch.zeros_like(weight_VD, dtype=exact) if learning else None
        objective, nll = hidden_ND.new_zeros((), dtype=exact), hidden_ND.new_zeros((), dtype=exact)
        for rows in slices(len(hidden_ND), paired=r_drop > 0, device=hidden_ND.device):
            hidden_CD, targets_C = hidden_ND[rows], targets_N[rows]
            found = slice_loss(hidden_CD @ weight.T, targets_C, 1 - smoothing, r_drop / 2)
            right, even = found.logp_right_C.sum(), (hidden_CD.to(exact) @ mean_row_D).sum() - found.log_sum_C.sum()
            nll -= right
            objective -= (1 - smoothing) * right + smoothing * even
            if found.divergence is not None:
                objective += r_drop / 2 * found.divergence
            if grad_hidden_ND is not None and grad_weight_VD is not None:
                grad_hidden_ND[rows] = found.grad_CV @ weight
                grad_weight_VD += found.grad_CV.T @ hidden_CD
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
        return grad_hidden_ND.mul_(grad.to(grad_hidden_ND.dtype)), grad_weight_VD.mul_(grad), None, None, None, None


def slices(count: int, paired: bool, device: torch.device) -> list[Any]:
    """The rows of each slice; paired, a row of the first half goes with its like in the second."""
    if not paired:
        return [slice(start, start + SLICE) for start in range(0, count, SLICE)]
    half, step = count // 2, SLICE // 2
    first = [torch.arange(start, min(start + step, half), device=device) for start in range(0, half, step)]
    return [torch.cat([rows, rows + half]) for rows in first]
