"""chrF (Popović 2015): the F-score of character n-grams of up to six characters, with recall twice as important.

Scores are those of sacreBLEU: white space is removed, precision and recall are averaged over the orders that both the
outputs and the references have.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import numpy.typing as npt

ORDER, BETA = 6, 2
Statistics = npt.NDArray[np.int64]


def chrf_statistics(output: str, reference: str, lowercase: bool) -> list[int]:
    """Of one sentence, for each order: the n-grams of the output, those of the reference, and the matches."""
    if lowercase:
        output, reference = output.lower(), reference.lower()
    found, wanted = "".join(output.split()), "".join(reference.split())
    counts: list[int] = []
    for n in range(1, ORDER + 1):
        of_reference = max(len(wanted) - n + 1, 0)
        of_output = max(len(found) - n + 1, 0) if of_reference else 0
        counts += [of_output, of_reference, (ngrams(found, n) & ngrams(wanted, n)).total()]
    return counts


def ngrams(text: str, n: int) -> Counter[str]:
    return Counter(text[at : at + n] for at in range(len(text) - n + 1))


def chrf(statistics: Statistics) -> float:
    """The score, 0 to 100, from the sums of the sentences' statistics."""
    counts = statistics.reshape(ORDER, 3)
    found, wanted, matches = counts[(counts[:, :2] > 0).all(axis=1)].T
    if not matches.any():
        return 0.0
    precision, recall = float((matches / found).mean()), float((matches / wanted).mean())
    return 100 * (1 + BETA**2) * precision * recall / (BETA**2 * precision + recall)
