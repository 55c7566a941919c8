"""The progress of a beam search: its best hypothesis after each step, reported as a change to the one before.

An observer of `beam_search` over one sentence. It reports the best of the active hypotheses; another may win.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from regard.decode.beam import BeamStep

# Called with the number of tokens that are unchanged, and (id, log-probability) of each token after them.
Report = Callable[[int, list[tuple[int, float]]], None]


class SearchProgress:
    """Pass `observe` to a beam search of one sentence."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self.ids: list[int] = []

    def observe(self, step: BeamStep) -> None:
        if not len(step.rows_R):  # the search has ended
            return
        best = int(step.rows_R[0])  # rows are sorted, best first
        ids: list[int] = step.extended.ids[best].tolist()
        kept = common_prefix_length(self.ids, ids)
        self.report(kept, list(zip(ids[kept:], step.extended.log_probs[best].tolist()[kept:], strict=True)))
        self.ids = ids


def common_prefix_length(one: Sequence[int], other: Sequence[int]) -> int:
    pairs = zip(one, other, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))
