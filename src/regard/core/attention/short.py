"""Attention among few tokens in C++: one kernel forward and one backward, in place of a dozen of PyTorch's.

It reads the heads where the projection left them and writes them where the next product wants them. Its dropout is
drawn from a counter, and drawn again in the backward pass.

Shapes: B batch, L query length, M memory length, H heads, K head size.
"""

from __future__ import annotations

import ctypes
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.kernels.loader import SUFFIXES, Strided, draw_seed, head_rows, kernel, library, pointer

LANES = 16  # of a vector: the weights of a query are kept up to a whole one
LONGEST = 64  # queries, and keys: beyond, PyTorch's own products win


def _mask(mask_B1LM: Tensor | None) -> Strided:
    if mask_B1LM is None:
        return Strided()
    sentence, _, query, key = mask_B1LM.stride()
    return Strided(mask_B1LM.data_ptr(), (sentence, query, key))


class _Call(ctypes.Structure):
    """`AttentionCall` of short_attention.h."""

    _fields_ = (
        *((name, Strided) for name in ("q", "k", "v", "mask")),
        *((name, ctypes.c_int64) for name in ("sentences", "heads", "queries", "keys", "size")),
        ("scale", ctypes.c_float),
        ("threshold", ctypes.c_int),
        ("seed", ctypes.c_uint64),
    )

    def __init__(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float, threshold: int, seed: int
    ) -> None:
        super().__init__(
            *map(head_rows, (q, k, v)), _mask(mask), *q.shape[:3], k.shape[2], q.shape[3], scale, threshold, seed
        )


def fits(q_BHLK: Tensor, k_BHMK: Tensor, v_BHMK: Tensor, mask: Tensor | None) -> bool:
    """Whether the kernel can take them: on the CPU, of one type, each head's numbers together, few scores."""
    (B, H, L, K), dtype = q_BHLK.shape, q_BHLK.dtype
    if max(L, k_BHMK.shape[2]) > LONGEST or q_BHLK.numel() == 0 or dtype not in SUFFIXES:
        return False
    alike = all(x.dtype == dtype and x.device.type == "cpu" and x.stride(3) == 1 for x in (q_BHLK, k_BHMK, v_BHMK))
    same = k_BHMK.shape == v_BHMK.shape and (*k_BHMK.shape[:2], k_BHMK.shape[3]) == (B, H, K)
    return alike and same and (mask is None or takes(mask, B)) and library() is not None


def takes(mask: Tensor, batch: int) -> bool:
    """Whether it is one for all heads."""
    like_cpu = mask.dtype == torch.bool and mask.device.type == "cpu"
    return like_cpu and mask.dim() in (2, 4) and (mask.dim() == 2 or mask.shape[:2] in ((1, 1), (batch, 1)))


def short_attention(
    q_BHLK: Tensor, k_BHMK: Tensor, v_BHMK: Tensor, mask: Tensor | None, scale: float, threshold: int = 0
) -> Tensor:
    """softmax(q kᵀ · scale, where mask) v for what `fits`; `threshold` / 256 of the weights are dropped."""
    if mask is not None:
        mask = mask.expand(len(q_BHLK), 1, q_BHLK.shape[2], k_BHMK.shape[2])
    out_BLHK: Tensor = _ShortAttention.apply(q_BHLK, k_BHMK, v_BHMK, mask, scale, threshold)  # type: ignore[no-untyped-call]
    return out_BLHK.transpose(1, 2)


class _ShortAttention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, q_BHLK: Tensor, k_BHMK: Tensor, v_BHMK: Tensor, mask: Tensor | None, scale: float, threshold: int
    ) -> Tensor:
        B, H, L, K = q_BHLK.shape
        seed = draw_seed() if threshold else 0
        columns = -(-k_BHMK.shape[2] // LANES) * LANES
        weights_BHLM, out_BLHK = q_BHLK.new_empty(B, H, L, columns), q_BHLK.new_empty(B, L, H, K)
        call = _Call(q_BHLK, k_BHMK, v_BHMK, mask, scale, threshold, seed)
        kernel("attention", q_BHLK.dtype)(ctypes.byref(call), pointer(weights_BHLM), pointer(out_BLHK))
        ctx.save_for_backward(q_BHLK, k_BHMK, v_BHMK, weights_BHLM)
        ctx.scale, ctx.threshold, ctx.seed = scale, threshold, seed
        return out_BLHK

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_BLHK: Tensor) -> tuple[Tensor | None, ...]:
        q_BHLK, k_BHMK, v_BHMK, weights_BHLM = ctx.saved_tensors
        grad_BLHK = grad_BLHK.contiguous()
        grad_q_BLHK = torch.empty_like(grad_BLHK)
        B, H, M, K = k_BHMK.shape
        grad_k_BMHK, grad_v_BMHK = (k_BHMK.new_empty(B, M, H, K) for _ in range(2))
        call = _Call(q_BHLK, k_BHMK, v_BHMK, None, ctx.scale, ctx.threshold, ctx.seed)
        tensors = (weights_BHLM, grad_BLHK, grad_q_BLHK, grad_k_BMHK, grad_v_BMHK)
        kernel("attention_backward", q_BHLK.dtype)(ctypes.byref(call), *map(pointer, tensors))
        by_heads = (grad.transpose(1, 2) for grad in (grad_q_BLHK, grad_k_BMHK, grad_v_BMHK))
        return (*by_heads, None, None, None)
