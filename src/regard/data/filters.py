"""Filters of training pairs, and a report of the excluded ones."""

from __future__ import annotations

from collections.abc import Sized
from dataclasses import asdict, dataclass
from typing import Literal

from regard.config import FilterConfig

Fate = Literal["kept", "empty", "identical", "too_long", "lopsided"]

_LONG_ENOUGH_TO_COMPARE = 10  # tokens: the length ratio of short sentences varies


def filter_reason(src: str, tgt: str, src_ids: Sized, tgt_ids: Sized, filters: FilterConfig) -> Fate:
    """ "kept", or why a pair is excluded, given its normalised texts and its tokens."""
    shorter, longer = sorted((len(src_ids), len(tgt_ids)))
    if not shorter:
        return "empty"
    if filters.drop_identical and src == tgt:
        return "identical"
    if longer > filters.max_tokens:
        return "too_long"
    if longer > _LONG_ENOUGH_TO_COMPARE and longer > filters.max_ratio * shorter:
        return "lopsided"
    return "kept"


@dataclass
class FilterReport:
    """The number of pairs of a corpus that were read and kept, and of those excluded per reason."""

    name: str
    read: int = 0
    kept: int = 0
    empty: int = 0
    identical: int = 0
    too_long: int = 0
    lopsided: int = 0

    def count(self, what: Fate) -> None:
        self.read += 1
        setattr(self, what, getattr(self, what) + 1)

    def counts(self) -> dict[str, int]:
        return {key: value for key, value in asdict(self).items() if key != "name"}

    def __str__(self) -> str:
        reasons = {
            "empty": self.empty,
            "source = target": self.identical,
            "too long": self.too_long,
            "lengths too different": self.lopsided,
        }
        left_out = ", ".join(f"{count:,} {reason}" for reason, count in reasons.items() if count)
        kept = f"{self.name}: {self.kept:,} of {self.read:,} pairs kept"
        return f"{kept} (left out: {left_out})" if left_out else kept
