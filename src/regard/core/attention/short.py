"""Attention over short sequences in C++: one kernel forward and one backward, instead of a dozen operators.

It reads the heads from the output of the projection and writes them in the layout of the next product. Its dropout mask
is computed from a counter, and computed again in the backward pass.

Shapes: B batch, L query length, M memory length, H heads, K head size.
"""

from __future__ import annotations

import ctypes
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.core.dropout import byte_threshold
from regard.kernels.loader import library
from regard.kernels.training import SUFFIXES, TRAINING, AttentionCall, AttentionMask, HeadRows, kernel, random_seed

LANES = 16  # numbers per vector: the weights of a query are padded to whole vectors
LONGEST = 64  # queries or keys: beyond that PyTorch's own products are faster


def _call(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float, threshold: int, seed: int
) -> AttentionCall:
    heads = map(HeadRows.of, (q, k, v))
    return AttentionCall(*heads, AttentionMask.of(mask), *q.shape[:3], k.shape[2], q.shape[3], scale, threshold, seed)


def fits(q_BHLK: Tensor, k_BHMK: Tensor, v_BHMK: Tensor, mask: Tensor | None) -> bool:
    """Whether the kernel supports these tensors: on the CPU, of one dtype, last dimension contiguous, short."""
    (B, H, L, K), dtype = q_BHLK.shape, q_BHLK.dtype
    if max(L, k_BHMK.shape[2]) > LONGEST or q_BHLK.numel() == 0 or dtype not in SUFFIXES:
        return False
    alike = all(x.dtype == dtype and x.device.type == "cpu" and x.stride(3) == 1 for x in (q_BHLK, k_BHMK, v_BHMK))
    same = k_BHMK.shape == v_BHMK.shape and (*k_BHMK.shape[:2], k_BHMK.shape[3]) == (B, H, K)
    return alike and same and (mask is None or mask_fits(mask, B)) and library(TRAINING) is not None


def mask_fits(mask: Tensor, batch: int) -> bool:
    """Whether the kernel supports this mask: boolean, on the CPU, the same for all heads."""
    on_cpu = mask.dtype == torch.bool and mask.device.type == "cpu"
    return on_cpu and mask.dim() in (2, 4) and (mask.dim() == 2 or mask.shape[:2] in ((1, 1), (batch, 1)))


def short_attention(
    q_BHLK: Tensor, k_BHMK: Tensor, v_BHMK: Tensor, mask: Tensor | None, scale: float, dropout: float = 0.0
) -> Tensor:
    """softmax(q kᵀ · scale, where mask) v, for tensors that `fits` accepts; `dropout` applies to the weights."""
    if mask is not None:
        mask = mask.expand(len(q_BHLK), 1, q_BHLK.shape[2], k_BHMK.shape[2])
    out_BLHK: Tensor = _ShortAttention.apply(q_BHLK, k_BHMK, v_BHMK, mask, scale, dropout)  # type: ignore[no-untyped-call]
    return out_BLHK.transpose(1, 2)


class _ShortAttention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, q_BHLK: Tensor, k_BHMK: Tensor, v_BHMK: Tensor, mask: Tensor | None, scale: float, dropout: float
    ) -> Tensor:
        B, H, L, K = q_BHLK.shape
        threshold = byte_threshold(dropout)
        seed = random_seed() if threshold else 0
        columns = -(-k_BHMK.shape[2] // LANES) * LANES
        weights_BHLM, out_BLHK = q_BHLK.new_empty(B, H, L, columns), q_BHLK.new_empty(B, L, H, K)
        call = _call(q_BHLK, k_BHMK, v_BHMK, mask, scale, threshold, seed)
        kernel("attention", q_BHLK.dtype)(ctypes.byref(call), weights_BHLM, out_BLHK)
        ctx.save_for_backward(q_BHLK, k_BHMK, v_BHMK, mask, weights_BHLM)
        ctx.scale, ctx.threshold, ctx.seed = scale, threshold, seed
        return out_BLHK

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_BLHK: Tensor) -> tuple[Tensor | None, ...]:
        q_BHLK, k_BHMK, v_BHMK, mask, weights_BHLM = ctx.saved_tensors
        grad_BLHK = grad_BLHK.contiguous()
        grad_q_BLHK = torch.empty_like(grad_BLHK)
        B, H, M, K = k_BHMK.shape
        grad_k_BMHK, grad_v_BMHK = (k_BHMK.new_empty(B, M, H, K) for _ in range(2))
        call = _call(q_BHLK, k_BHMK, v_BHMK, mask, ctx.scale, ctx.threshold, ctx.seed)
        gradients = (grad_q_BLHK, grad_k_BMHK, grad_v_BMHK)
        kernel("attention_backward", q_BHLK.dtype)(ctypes.byref(call), weights_BHLM, grad_BLHK, *gradients)
        by_heads = (grad.transpose(1, 2) for grad in gradients)
        return (*by_heads, None, None, None)
