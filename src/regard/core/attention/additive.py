"""The attention of recurrent decoders: additive (Bahdanau et al. 2015, section 3.1) and dot product (Luong et al. 2015,
section 3.1).

Both score each source vector h against the decoder's state s; softmax over the scores gives weights, and the weighted
sum of the source vectors is the context. Bahdanau scores by a small network, Luong by a product. The Transformer kept
the product, divided it by √d, and dropped the recurrence.

A decoder step needs its context, so queries come one at a time. What is the same for all steps is computed once:
`prepare` a source, then call the function that `attend_to` returns at each step.

Shapes: B batch, M memory length, D query, S memory vectors, A inner size, H = 1 head, L = 1 query per step.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.core.accumulated_matmul import AccumulatedMatmul
from regard.core.linear import Linear
from regard.core.taps import Tap

Attend = Callable[[Tensor], Tensor]  # query_BD → context_BS


@dataclass(frozen=True)
class Memory:
    """A prepared source: the keys, the values, and the mask of its padding."""

    keys_BMA: Tensor
    values_BMS: Tensor
    mask_B11M: Tensor

    def select(self, rows_R: Tensor) -> Memory:
        """These rows in this order."""
        return Memory(
            self.keys_BMA.index_select(0, rows_R),
            self.values_BMS.index_select(0, rows_R),
            self.mask_B11M.index_select(0, rows_R),
        )


class StepAttention(nn.Module):
    """The common part: from scores to the context, with the taps."""

    def __init__(self) -> None:
        super().__init__()
        self.scores, self.weights, self.attn_out = Tap(), Tap(), Tap()

    def context(self, scores_BM: Tensor, mask_B11M: Tensor, values: AccumulatedMatmul) -> Tensor:
        scores_BHLM = self.scores(scores_BM[:, None, None]).masked_fill(~mask_B11M, -math.inf)
        weights_BHLM = self.weights(scores_BHLM.softmax(dim=-1))
        context_BLS: Tensor = self.attn_out(values(weights_BHLM[:, 0]))
        return context_BLS[:, 0]


class AdditiveAttention(StepAttention):
    """score = vᵀ tanh(W_s s + W_h h + b): s_BD the state, h_BMS the source."""

    def __init__(self, d_query: int, d_memory: int, d_inner: int) -> None:
        super().__init__()
        self.from_state = Linear(d_query, d_inner, bias=False)
        self.from_memory = Linear(d_memory, d_inner)
        self.v = nn.Parameter(torch.empty(d_inner))

    def prepare(self, memory_BMS: Tensor, mask_B11M: Tensor) -> Memory:
        return Memory(self.from_memory(memory_BMS), memory_BMS, mask_B11M)

    def attend_to(self, memory: Memory) -> Attend:
        """The function from a query to its context over this memory."""
        dtype = memory.keys_BMA.dtype
        from_state = AccumulatedMatmul(self.from_state.weight.to(dtype).T)
        values = AccumulatedMatmul(memory.values_BMS)
        v_A = self.v.to(dtype)

        def attend(query_BD: Tensor) -> Tensor:
            hidden_BMA = torch.tanh(memory.keys_BMA + from_state(query_BD.to(dtype))[:, None])
            return self.context(hidden_BMA @ v_A, memory.mask_B11M, values)

        return attend


class DotAttention(StepAttention):
    """score = sᵀ h (Luong's `dot`) if both have the same size; otherwise sᵀ W h (`general`)."""

    def __init__(self, d_query: int, d_memory: int) -> None:
        super().__init__()
        self.from_memory = nn.Identity() if d_query == d_memory else Linear(d_memory, d_query, bias=False)

    def prepare(self, memory_BMS: Tensor, mask_B11M: Tensor) -> Memory:
        return Memory(self.from_memory(memory_BMS), memory_BMS, mask_B11M)

    def attend_to(self, memory: Memory) -> Attend:
        """The function from a query to its context over this memory."""
        keys, values = AccumulatedMatmul(memory.keys_BMA.mT), AccumulatedMatmul(memory.values_BMS)

        def attend(query_BD: Tensor) -> Tensor:
            scores_BLM = keys(query_BD.to(memory.keys_BMA.dtype)[:, None])
            return self.context(scores_BLM[:, 0], memory.mask_B11M, values)

        return attend
