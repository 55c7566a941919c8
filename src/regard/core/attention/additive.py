"""Attention before the Transformer: a recurrent decoder looks at the source once a step.

Bahdanau et al. 2015 (section 3.1) score a source word h against the decoder's state s by a small network, Luong et
al. 2015 (section 3.1) by a product; the Transformer kept the product, divided it by √d, and dropped the recurrence.
Softmax over the scores gives weights, and the weighted mean of the source is the context.

A decoder needs the context of a step to take it, so queries come one after the other. What does not change from
step to step is computed once: `read` a sentence, then `look` at it.

Shapes: B batch, M memory length, D query, S memory vectors, A inner size, H = 1 head, L = 1 query a step.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.core.accumulated_matmul import Repeated
from regard.core.linear import Linear
from regard.core.taps import Tap

Look = Callable[[Tensor], Tensor]  # query_BD → context_BS


@dataclass(frozen=True)
class Memory:
    """A source that has been read: what queries are compared with, what is brought back, where there is something."""

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
    """What the two have in common: from scores to a context, past the taps."""

    def __init__(self) -> None:
        super().__init__()
        self.scores, self.weights, self.attn_out = Tap(), Tap(), Tap()

    def gather(self, scores_BM: Tensor, mask_B11M: Tensor, values: Repeated) -> Tensor:
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

    def read(self, memory_BMS: Tensor, mask_B11M: Tensor) -> Memory:
        return Memory(self.from_memory(memory_BMS), memory_BMS, mask_B11M)

    def look(self, memory: Memory) -> Look:
        """How to attend to this memory, one query after the other."""
        dtype = memory.keys_BMA.dtype
        from_state, values = Repeated(self.from_state.weight.to(dtype).T), Repeated(memory.values_BMS)
        v_A = self.v.to(dtype)

        def attend(query_BD: Tensor) -> Tensor:
            hidden_BMA = torch.tanh(memory.keys_BMA + from_state(query_BD.to(dtype))[:, None])
            return self.gather(hidden_BMA @ v_A, memory.mask_B11M, values)

        return attend


class DotAttention(StepAttention):
    """score = sᵀ h, Luong's `dot`, where both are of one size; else sᵀ W h, his `general`, which makes them so."""

    def __init__(self, d_query: int, d_memory: int) -> None:
        super().__init__()
        self.from_memory = nn.Identity() if d_query == d_memory else Linear(d_memory, d_query, bias=False)

    def read(self, memory_BMS: Tensor, mask_B11M: Tensor) -> Memory:
        return Memory(self.from_memory(memory_BMS), memory_BMS, mask_B11M)

    def look(self, memory: Memory) -> Look:
        """How to attend to this memory, one query after the other."""
        keys, values = Repeated(memory.keys_BMA.mT), Repeated(memory.values_BMS)

        def attend(query_BD: Tensor) -> Tensor:
            scores_BLM = keys(query_BD.to(memory.keys_BMA.dtype)[:, None])
            return self.gather(scores_BLM[:, 0], memory.mask_B11M, values)

        return attend
