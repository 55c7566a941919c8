"""A small real model to search, and oracles too simple to be wrong.

The model's next-token logits come from a seeded random table, looked up by a hash of the source and of the
whole target so far: a true autoregressive model without any structure a search could be lucky with.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from regard.tokenizers.special_ids import BOS, EOS, PAD, UNK

TABLE = 1009


class TableState:
    def __init__(self, hash_R: Tensor) -> None:
        self.hash_R = hash_R

    def reorder(self, rows_R: Tensor) -> None:
        self.hash_R = self.hash_R[rows_R]


class TableModel:
    def __init__(
        self, seed: int, vocab: int, spread: float = 2.0, end: float = 0.0, dtype: torch.dtype = torch.float64
    ) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.table = (torch.randn(TABLE, vocab, generator=generator, dtype=torch.float64) * spread).to(dtype)
        self.table[:, EOS] += end
        self.rows_fed: list[int] = []

    def begin(self, src_BM: Tensor, max_length: int) -> TableState:
        hash_B = torch.zeros(len(src_BM), dtype=torch.int64)
        for column_B in src_BM.unbind(1):
            hash_B = torch.where(column_B == PAD, hash_B, (hash_B * 31 + column_B + 1) % TABLE)
        self.rows_fed = []
        return TableState(hash_B)

    def step(self, tokens_R: Tensor, state: TableState) -> Tensor:
        assert len(tokens_R) == len(state.hash_R)
        self.rows_fed.append(len(tokens_R))
        state.hash_R = (state.hash_R * 37 + tokens_R * 101 + 7) % TABLE
        return self.table[state.hash_R]

    def __call__(self, src_BM: Tensor, tgt_BL: Tensor) -> Tensor:
        state = self.begin(src_BM, tgt_BL.shape[1])
        return torch.stack([self.step(tokens_B, state) for tokens_B in tgt_BL.unbind(1)], dim=1)


def pad(sources: Sequence[Sequence[int]], extra: int = 0) -> Tensor:
    """src_BM, each source with its EOS, padded to the longest and `extra` columns more."""
    width = max(map(len, sources)) + 1 + extra
    return torch.tensor([[*ids, EOS, *[PAD] * (width - 1 - len(ids))] for ids in sources])


def greedy(
    model: TableModel, source: Sequence[int], limit: int, prefix: Sequence[int] = ()
) -> tuple[list[int], float, bool]:
    """(ids, log-probability, finished) by whole forward passes, one token at a time, without any cache."""
    ids: list[int] = []
    total = 0.0
    for position in range(limit):
        logits_V = model(pad([source]), torch.tensor([[BOS, *ids]]))[0, -1].double()
        log_probs_V = logits_V.log_softmax(0)
        free_V = log_probs_V.clone()
        free_V[[PAD, UNK, BOS]] = -math.inf
        token = prefix[position] if position < len(prefix) else int(free_V.argmax())
        total += log_probs_V[token].item()
        if token == EOS:
            return ids, total, True
        ids.append(token)
    return ids, total, False


def all_translations(model: TableModel, source: Sequence[int], limit: int, vocab: int) -> dict[tuple[int, ...], float]:
    """The log-probability of every finished translation of at most `limit` tokens, EOS among them."""
    words = range(EOS + 1, vocab)
    found: dict[tuple[int, ...], float] = {}
    for length in range(limit):
        every = list(itertools.product(words, repeat=length))
        given_BL = torch.tensor([[BOS, *ids] for ids in every])
        log_probs_BLV = model(pad([source]).expand(len(every), -1), given_BL).log_softmax(-1)
        wanted_BL1 = torch.tensor([[*ids, EOS] for ids in every])[:, :, None]
        totals: list[float] = log_probs_BLV.gather(2, wanted_BL1).sum(dim=(1, 2)).tolist()
        found.update(zip(every, totals, strict=True))
    return found


class Workspace:
    """What the tests of this folder share."""

    model = TableModel
    pad = staticmethod(pad)
    greedy = staticmethod(greedy)
    all_translations = staticmethod(all_translations)


@pytest.fixture(scope="session")
def bench() -> Workspace:
    return Workspace()
