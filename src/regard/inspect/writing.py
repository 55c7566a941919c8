"""A translation while it is written: what the best hypothesis of a beam search has become, step by step.

An observer of `beam_search` over one sentence. Until the search has ended, nobody knows which hypothesis will win:
what is told is the likeliest of those that are still being written, and the winner may yet be another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from regard.decode.beam import BeamStep

# How many of the tokens told before still stand, and which come after them: (id, log-probability) each.
Tell = Callable[[int, list[tuple[int, float]]], None]


class Writing:
    """Give `observe` to a beam search of one sentence."""

    def __init__(self, tell: Tell) -> None:
        self.tell = tell
        self.ids: list[int] = []

    def observe(self, step: BeamStep) -> None:
        if not len(step.rows_R):  # the search is over
            return
        best = int(step.rows_R[0])  # candidates stand best first
        ids: list[int] = step.extended.ids[best].tolist()
        kept = count_same(self.ids, ids)
        self.tell(kept, list(zip(ids[kept:], step.extended.log_probs[best].tolist()[kept:], strict=True)))
        self.ids = ids


def count_same(one: Sequence[int], other: Sequence[int]) -> int:
    """How long the beginning is that both have."""
    pairs = zip(one, other, strict=False)
    return next((place for place, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))
