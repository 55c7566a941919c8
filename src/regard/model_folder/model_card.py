"""The head of a model card: what a program may read of it.

A card (README.md of a model folder) is prose for people. Between two lines of three dashes at its top it may say a few
things one by one, as cards of models on the web do:

    ---
    licence: CC-BY 2.0 FR; MIT
    bleu: 31.2
    chrf: 54.7
    ---

Whatever is a number is a score; what is not is text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

FENCE = "---"
LICENCE = "licence"


@dataclass(frozen=True)
class CardHead:
    licence: str = ""
    scores: Mapping[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        """The head as it stands in a card, with an empty line after it; nothing where there is nothing to say."""
        said = {LICENCE: self.licence} if self.licence else {}
        said |= {name: f"{value:.4g}" for name, value in self.scores.items()}
        if not said:
            return ""
        return "\n".join([FENCE, *(f"{name}: {value}" for name, value in said.items()), FENCE, "", ""])


def read_head(card: str) -> CardHead:
    """The head of a card; an empty one where it has none."""
    first, *lines = card.splitlines() or [""]
    if first.strip() != FENCE or FENCE not in map(str.strip, lines):
        return CardHead()
    licence, scores = "", {}
    for line in lines[: [line.strip() for line in lines].index(FENCE)]:
        name, _, value = (part.strip() for part in line.partition(":"))
        try:
            scores[name] = float(value)
        except ValueError:
            if name in (LICENCE, "license"):
                licence = value.strip("\"'")
    return CardHead(licence, scores)
