"""The classification of a text or an image."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Classification:
    """All classes with their probabilities, the most probable first."""

    labels: tuple[tuple[str, float], ...]

    @classmethod
    def from_probabilities(cls, labels: Sequence[str], probability_C: npt.NDArray[np.floating[Any]]) -> Classification:
        order = np.argsort(-probability_C, kind="stable").tolist()
        return cls(tuple((labels[number], float(probability_C[number])) for number in order))

    @property
    def label(self) -> str:
        """The most probable class."""
        return self.labels[0][0]

    @property
    def probability(self) -> float:
        return self.labels[0][1]
