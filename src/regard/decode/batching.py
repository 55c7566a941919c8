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
    """The same for workers that need no padding: rounds of like length, in each a batch for every worker.

    Within a round a sentence goes to whoever has the fewest tokens. So all have as many tokens, in sentences of the
    same lengths, and end at about the same time, however long the translations turn out to be.
    """
    if batch_tokens < 1:
        raise ConfigError(f"batch_tokens = {batch_tokens} is too small; the least is 1")
    total = sum(lengths)
    rounds = math.ceil(total / (batch_tokens * workers))
    batches: list[list[int]] = []
    tokens: list[int] = []  # in each batch of the round
    before = 0
    for index in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        if before * rounds >= total * (len(batches) // workers):
            batches += [[] for _ in range(workers)]
            tokens = [0] * workers
        worker = tokens.index(min(tokens))
        batches[worker - workers].append(index)
        tokens[worker] += lengths[index]
        before += lengths[index]
    return [batch for batch in batches if batch]
