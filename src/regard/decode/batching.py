"""Batches of sentences of similar length, up to a budget of tokens."""

from __future__ import annotations

import math
from collections.abc import Sequence

from regard.config import DecodeConfig
from regard.errors import ConfigError


def token_budget(config: DecodeConfig, n_best: int) -> int:
    """Source tokens per batch: fewer for wide beams and many samples, so that memory does not grow with these."""
    rows = config.beam if config.method == "beam" else n_best
    return max(1, config.batch_tokens * 4 // max(rows, 4))


def plan_batches(lengths: Sequence[int], batch_tokens: int) -> list[list[int]]:
    """Indices in batches, longest first, each batch's count · longest ≤ `batch_tokens`.

    A sentence longer than the budget is a batch of its own. Longest first, so that peak memory is reached at the start.
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
    """Batches for workers that need no padding: rounds of similar length, each with one batch per worker.

    Within a round a sentence goes to the worker with the fewest tokens. All workers then have the same number of tokens
    in sentences of the same lengths, and finish at about the same time, however long the translations are.
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
