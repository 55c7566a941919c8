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

SLICE = 256


class VocabularyLoss(NamedTuple):
    """Sums over the positions: `objective` is what is minimised, `nll` what perplexity is computed from."""

    objective: Tensor
    nll: Tensor


def vocabulary_loss(
    hidden_ND: Tensor, weight_VD: Tensor, targets_N: Tensor, smoothing: float = 0.0, r_drop: float = 0.0
) -> VocabularyLoss:
    """Summed loss of predicting `targets` from `hidden` through `weight`.

    With `r_drop`, the first and second half of the rows are two passes over the same positions.
    """
    objective, nll = _VocabularyLoss.apply(hidden_ND, weight_VD, targets_N, smoothing, r_drop)  # type: ignore[no-untyped-call]
    return VocabularyLoss(objective, nll)


class _VocabularyLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden_ND: Tensor, weight_VD: Tensor, targets_N: Tensor, smoothing: float, r_drop: float
    ) -> tuple[Tensor, Tensor]:
        exact = torch.promote_types(hidden_ND.dtype, torch.float32)
        weight = weight_VD.to(hidden_ND.dtype)
        mean_row_D = weight_VD.mean(dim=0)
        wanted = hidden_ND.requires_grad or weight_VD.requires_grad
        grad_hidden_ND = torch.empty_like(hidden_ND) if wanted else None
        grad_weight_VD = torch.zeros_like(weight_VD, dtype=exact) if wanted else None
        objective, nll = hidden_ND.new_zeros((), dtype=exact), hidden_ND.new_zeros((), dtype=exact)
        for rows in slices(len(hidden_ND), paired=r_drop > 0, device=hidden_ND.device):
            hidden_CD, targets_C1 = hidden_ND[rows], targets_N[rows][:, None]
            logits_CV = hidden_CD @ weight.T
            logp_CV = torch.log_softmax(logits_CV, dim=-1, dtype=exact)
            logp_right_C1 = logp_CV.gather(1, targets_C1)
            log_sum_C1 = logits_CV.gather(1, targets_C1) - logp_right_C1
            even = (hidden_CD.to(exact) @ mean_row_D.to(exact)).sum() - log_sum_C1.sum()
            nll -= logp_right_C1.sum()
            objective -= (1 - smoothing) * logp_right_C1.sum() + smoothing * even
            right_C1 = torch.full_like(logp_right_C1, 1 - smoothing)
            if r_drop:
                grad_CV, pull = pull_together(logp_CV, targets_C1, right_C1, r_drop / 2, hidden_ND.dtype)
                objective += pull
            else:
                grad_CV = logp_CV.exp_().scatter_add_(1, targets_C1, -right_C1).to(hidden_ND.dtype)
            if grad_hidden_ND is not None and grad_weight_VD is not None:
                grad_hidden_ND[rows] = grad_CV @ weight
                grad_weight_VD += grad_CV.T @ hidden_CD
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
        return grad_hidden_ND.mul_(grad.to(grad_hidden_ND.dtype)), grad_weight_VD.mul_(grad), None, None, None


def slices(count: int, paired: bool, device: torch.device) -> list[Any]:
    """The rows of each slice; paired, a row of the first half goes with its like in the second."""
    if not paired:
        return [slice(start, start + SLICE) for start in range(0, count, SLICE)]
    half, step = count // 2, SLICE // 2
    first = [torch.arange(start, min(start + step, half), device=device) for start in range(0, half, step)]
    return [torch.cat([rows, rows + half]) for rows in first]


def pull_together(
    logp_CV: Tensor, targets_C1: Tensor, right_C1: Tensor, strength: float, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """The gradient by the logits of cross-entropy plus strength · (KL(p‖q) + KL(q‖p)), and that divergence, summed.

    p is the first half of the rows and q the second. With p = softmax(a) the divergence's gradient by a is
    p · (log p − log q − KL(p‖q)) + p − q, and likewise for q. Written in place: these are the largest tensors here.
    """
    half = len(logp_CV) // 2
    gap = logp_CV[:half] - logp_CV[half:]
    both = logp_CV.exp_()
    p, q = both[:half], both[half:]
    kl_pq, kl_qp = row_products(p, gap), -row_products(q, gap)
    gap *= strength
    grad_CV = torch.empty_like(both, dtype=dtype)
    by_p = (gap + (1 + strength - strength * kl_pq)).mul_(p).scatter_add_(1, targets_C1[:half], -right_C1[:half])
    grad_CV[:half] = by_p.sub_(q, alpha=strength)
    by_q = gap.neg_().add_(1 + strength - strength * kl_qp).mul_(q)
    grad_CV[half:] = by_q.scatter_add_(1, targets_C1[half:], -right_C1[half:]).sub_(p, alpha=strength)
    return grad_CV, strength * (kl_pq.sum() + kl_qp.sum())


def row_products(a_CV: Tensor, b_CV: Tensor) -> Tensor:
    """The dot product of each row of a with the same row of b: C1."""
    return torch.bmm(a_CV[:, None, :], b_CV[:, :, None])[:, :, 0]
