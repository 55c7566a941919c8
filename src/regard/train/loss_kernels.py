"""From logits to the gradient of the smoothed cross-entropy, a slice of rows at a time: in C++ or in PyTorch.

Both overwrite or drop the logits. "But for the even part": what smoothing spreads over all tokens alike is added by
`loss.py`, which knows how to do that without touching the logits.

Shapes: C rows of a slice, V vocabulary.
"""

from __future__ import annotations

import ctypes
from typing import NamedTuple

import torch
from torch import Tensor

from regard.kernels.loader import SUFFIXES, library, pointer


class SliceLoss(NamedTuple):
    grad_CV: Tensor  # by the logits, but for the even part of the smoothing
    logp_right_C: Tensor  # log p of the right token
    log_sum_C: Tensor  # log Σ exp(logits)
    divergence: Tensor | None = None  # Σ KL(p‖q) + KL(q‖p), with R-Drop


def slice_loss(logits_CV: Tensor, targets_C: Tensor, right: float, strength: float) -> SliceLoss:
    """`right`: the share of the right token, 1 − ε. `strength`: of R-Drop's pull between the halves of the rows."""
    native = library() if logits_CV.device.type == "cpu" and logits_CV.dtype in SUFFIXES else None
    if native is not None:
        return native_slice_loss(native, logits_CV, targets_C, right, strength)
    return paired_slice_loss(logits_CV, targets_C, right, strength) if strength else plain(logits_CV, targets_C, right)


def native_slice_loss(
    native: ctypes.CDLL, logits_CV: Tensor, targets_C: Tensor, right: float, strength: float
) -> SliceLoss:
    """In place, in one pass over each row."""
    rows, size = logits_CV.shape
    suffix = SUFFIXES[logits_CV.dtype]
    logp_right_C, log_sum_C = torch.empty(2, rows).unbind()
    share, width = ctypes.c_float(right), ctypes.c_int64(size)
    ends = (pointer(logp_right_C), pointer(log_sum_C))
    if not strength:
        kernel = native[f"regard_loss_{suffix}"]
        kernel(pointer(logits_CV), pointer(targets_C), share, *ends, ctypes.c_int64(rows), width)
        return SliceLoss(logits_CV, logp_right_C, log_sum_C)
    divergence = torch.empty(rows // 2)
    kernel = native[f"regard_paired_loss_{suffix}"]
    pull = ctypes.c_float(strength)
    pairs = ctypes.c_int64(rows // 2)
    kernel(pointer(logits_CV), pointer(targets_C), share, pull, *ends, pointer(divergence), pairs, width)
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
