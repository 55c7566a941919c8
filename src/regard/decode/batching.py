"""Which sentences to decode together: those of like length, as many as a budget of tokens holds."""

from __future__ import annotations

import math
from collections.abc import Sequence

from regard.errors import ConfigError


def plan_batches(lengths: Sequence[int], batch_tokens: int) -> list[list[int]]:
    """Indices in batches, longest first, each batch's count · longest ≤ `batch_tokens`.

    A sentence longer than the budget is a batch of its own. Longest first, so that memory peaks at the start.
    """
    if batch_tokens < 1:
        raise ConfigError(f"batch_tokens = {batch_tokens} is too small; the least is 1")
    batches: list[list[int]] = []
    for index in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        if batches and (len(batches[-1]) + 1) * lengths[batches[-1][0]] <= batch_tokens:
            batches[-1].append(index)
        else:
            batches.append([index])
    return batches


def share_batches(lengths: Sequence[int], batch_tokens: int, workers: int) -> list[list[int]]:
    """The same for workers that need no padding: as many tokens in each batch, and a batch for every worker.

    Where there are more batches than workers, they are a multiple, so that all workers end at about the same time.
    """
    if batch_tokens < 1:
        raise ConfigError(f"batch_tokens = {batch_tokens} is too small; the least is 1")
    rounds = math.ceil(sum(lengths) / (batch_tokens * workers))
    share = sum(lengths) / (rounds * workers) if lengths else 0
    batches: list[list[int]] = []
    before = 0
    for index in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        if before >= share * len(batches):
            batches.append([])
        batches[-1].append(index)
        before += lengths[index]
    return batches
