"""From logits to the gradient of the label-smoothed cross-entropy, a slice of rows at a time: in C++ or in PyTorch.

The logits may be overwritten. The uniform part of the smoothing, which is the same for all tokens, is not included:
`loss.py` adds it without touching the logits.

Shapes: C rows of a slice, V vocabulary.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from regard.kernels.loader import NativeLibrary, library
from regard.kernels.training import SUFFIXES, TRAINING


class SliceLoss(NamedTuple):
    grad_CV: Tensor  # by the logits, without the uniform part of the smoothing
    logp_right_C: Tensor  # log p of the right token
    log_sum_C: Tensor  # log Σ exp(logits)
    divergence: Tensor | None = None  # Σ KL(p‖q) + KL(q‖p), with R-Drop


def slice_loss(logits_CV: Tensor, targets_C: Tensor, right: float, strength: float) -> SliceLoss:
    """`right`: the target probability of the right token, 1 − ε. `strength`: the weight of R-Drop's divergence."""
    native = library(TRAINING) if logits_CV.device.type == "cpu" and logits_CV.dtype in SUFFIXES else None
    if native is not None:
        return native_slice_loss(native, logits_CV, targets_C, right, strength)
    return paired_slice_loss(logits_CV, targets_C, right, strength) if strength else plain(logits_CV, targets_C, right)


def native_slice_loss(
    native: NativeLibrary, logits_CV: Tensor, targets_C: Tensor, right: float, strength: float
) -> SliceLoss:
    """In place, in one pass over each row."""
    rows, size = logits_CV.shape
    suffix = SUFFIXES[logits_CV.dtype]
    logp_right_C, log_sum_C = torch.empty(2, rows).unbind()
    if not strength:
        native[f"loss_{suffix}"](logits_CV, targets_C, right, logp_right_C, log_sum_C, rows, size)
        return SliceLoss(logits_CV, logp_right_C, log_sum_C)
    divergence = torch.empty(rows // 2)
    native[f"paired_loss_{suffix}"](
        *(logits_CV, targets_C, right, strength, logp_right_C, log_sum_C, divergence, rows // 2, size)
    )
    return SliceLoss(logits_CV, logp_right_C, log_sum_C, divergence.sum())


def plain(logits_CV: Tensor, targets_C: Tensor, right: float) -> SliceLoss:
    """p − right · [target]."""
    logp_CV, logp_right_C1, log_sum_C1 = log_softmax(logits_CV, targets_C)
    shares = torch.full_like(logp_right_C1, -right)
    grad_CV = logp_CV.exp_().scatter_add_(1, targets_C[:, None], shares).to(logits_CV.dtype)
    return SliceLoss(grad_CV, logp_right_C1[:, 0], log_sum_C1[:, 0])


def paired_slice_loss(logits_CV: Tensor, targets_C: Tensor, right: float, strength: float) -> SliceLoss:
    """The same plus strength · d(KL(p‖q) + KL(q‖p)); p is the first half of the rows and q the second.

    With p = softmax(a) the divergence's gradient by a is p · (log p − log q − KL(p‖q)) + p − q; likewise for q.
    """
    logp_CV, logp_right_C1, log_sum_C1 = log_softmax(logits_CV, targets_C)
    half = len(logits_CV) // 2
    gap = logp_CV[:half] - logp_CV[half:]
    both = logp_CV.exp_()
    p, q = both[:half], both[half:]
    kl_pq, kl_qp = row_products(p, gap), -row_products(q, gap)
    by_p = p * (1 + strength + strength * (gap - kl_pq)) - strength * q
    by_q = q * (1 + strength - strength * (gap + kl_qp)) - strength * p
    grad_CV = torch.cat([by_p, by_q]).scatter_add_(1, targets_C[:, None], torch.full_like(logp_right_C1, -right))
    return SliceLoss(grad_CV.to(logits_CV.dtype), logp_right_C1[:, 0], log_sum_C1[:, 0], kl_pq.sum() + kl_qp.sum())


def log_softmax(logits_CV: Tensor, targets_C: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """log p of everything and of the right token, and the log-sum-exp, in float32 or better."""
    exact = torch.promote_types(logits_CV.dtype, torch.float32)
    logp_CV = torch.log_softmax(logits_CV, dim=-1, dtype=exact)
    logp_right_C1 = logp_CV.gather(1, targets_C[:, None])
    return logp_CV, logp_right_C1, logits_CV.gather(1, targets_C[:, None]).to(exact) - logp_right_C1


def row_products(a_CV: Tensor, b_CV: Tensor) -> Tensor:
    """The dot product of each row of a with the same row of b: C1."""
    return torch.bmm(a_CV[:, None, :], b_CV[:, :, None])[:, :, 0]
