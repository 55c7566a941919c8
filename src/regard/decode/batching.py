"""Which sentences to decode together: those of like length, as many as a budget of padded tokens holds."""

from __future__ import annotations

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
