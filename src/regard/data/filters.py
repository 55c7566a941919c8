"""Which training pairs are kept, and an account of those that are not."""

from __future__ import annotations

from collections.abc import Sized
from dataclasses import asdict, dataclass
from typing import Literal

from regard.config import FilterConfig

Fate = Literal["kept", "empty", "identical", "too_long", "lopsided"]

_LONG_ENOUGH_TO_COMPARE = 10  # pieces: short sentences are often lopsided with good reason


def filter_reason(src: str, tgt: str, src_ids: Sized, tgt_ids: Sized, filters: FilterConfig) -> Fate:
    """What becomes of a pair, given its normalised texts and its pieces."""
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
    """How many pairs of a corpus were read and kept, and why the others were not."""

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
