"""Span corruption, T5's pre-training (Raffel et al. 2020, section 3.1.4 and figure 2).

Some spans of a text are replaced by a sentinel each; the target is the removed spans, each after its sentinel, and a
final sentinel:

    source  Thank you <0> me to your party <1> week
    target  <0> for inviting <1> last <2>

A fraction `rate` of the tokens is removed, in spans of `mean_length` on average. Positions and lengths are sampled
uniformly from all choices in which no two spans are adjacent and the text does not begin with a span.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

RATE, MEAN_LENGTH = 0.15, 3.0  # the paper's, section 3.3.4


class Corrupted(NamedTuple):
    source: list[int]
    target: list[int]


def corrupt_spans(
    ids: Sequence[int],
    sentinels: Sequence[int],
    draw: random.Random,
    rate: float = RATE,
    mean_length: float = MEAN_LENGTH,
) -> Corrupted:
    """Corrupt a text of at least two tokens, with at most one span less than there are sentinels."""
    if len(ids) < 2:
        raise ValueError("span corruption needs a text of at least two tokens")
    if len(sentinels) < 2:
        raise ValueError("span corruption needs at least two sentinels: one for a span and one for the end")
    taken = min(max(round(len(ids) * rate), 1), len(ids) - 1)
    spans = max(round(taken / mean_length), 1)
    spans = min(spans, len(sentinels) - 1, taken, len(ids) - taken)
    lengths = zip(split_evenly(len(ids) - taken, spans, draw), split_evenly(taken, spans, draw), strict=True)
    source: list[int] = []
    target: list[int] = []
    place = 0
    for sentinel, (kept, lost) in zip(sentinels, lengths, strict=False):
        source += [*ids[place : place + kept], sentinel]
        target += [sentinel, *ids[place + kept : place + kept + lost]]
        place += kept + lost
    return Corrupted(source, [*target, sentinels[spans]])


def split_evenly(total: int, parts: int, draw: random.Random) -> list[int]:
    """Lengths of at least 1 that sum to `total`, sampled uniformly from all such lengths."""
    cuts = sorted(draw.sample(range(1, total), parts - 1))
    return [end - start for start, end in zip([0, *cuts], [*cuts, total], strict=True)]
