"""The machine-readable header of a model card.

A card (README.md of a model folder) is text for people. It may begin with a header between two lines of three dashes,
as model cards on the web do:

    ---
    licence: CC-BY 2.0 FR; MIT
    bleu: 31.2
    chrf: 54.7
    ---

An entry with a number is a score.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

FENCE = "---"
LICENCE = "licence"


@dataclass(frozen=True)
class CardHead:
    licence: str = ""
    scores: Mapping[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        """The header as it is written in a card, followed by an empty line; an empty text if there are no entries."""
        entries = {LICENCE: self.licence} if self.licence else {}
        entries |= {name: f"{value:.4g}" for name, value in self.scores.items()}
        if not entries:
            return ""
        return "\n".join([FENCE, *(f"{name}: {value}" for name, value in entries.items()), FENCE, "", ""])


def read_head(card: str) -> CardHead:
    """The header of a card; an empty one if it has none."""
    first, *lines = card.splitlines() or [""]
    if first.strip() != FENCE or FENCE not in map(str.strip, lines):
        return CardHead()
    licence, scores = "", {}
    for line in lines[: [line.strip() for line in lines].index(FENCE)]:
        name, _, value = (part.strip() for part in line.partition(":"))
        if not line.isprintable():
            continue
        try:
            score = float(value)
        except ValueError:
            if name in (LICENCE, "license"):
                licence = value.strip("\"'")
            continue
        if math.isfinite(score):
            scores[name] = score
    return CardHead(licence, scores)
