"""Translation quality: BLEU and chrF, with the signatures that make scores comparable, and a significance test.

The scores are sacreBLEU's, and the signatures name the same settings; the version is Regard's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from regard import __version__
from regard.errors import DataError
from regard.evaluation.bleu import Tokenize, bleu, bleu_statistics
from regard.evaluation.chrf import chrf, chrf_statistics

# Languages written without spaces: Chinese characters are separated, or every character is a token.
TOKENIZE: dict[str, Tokenize] = {
    **dict.fromkeys(("zh", "yue", "wuu", "lzh"), "zh"),
    **dict.fromkeys(("ja", "th", "lo", "my", "km"), "char"),
}
SEED = 12345

Statistics = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Quality:
    name: str
    score: float
    signature: str


@dataclass(frozen=True)
class Metric:
    name: str
    settings: str  # of its signature
    of_sentence: Callable[[str, str], list[int]]  # statistics of an output and its reference
    score: Callable[[Statistics], float]  # of the sum of the sentences' statistics

    def statistics(self, outputs: Sequence[str], references: Sequence[str]) -> Statistics:
        """One row per sentence."""
        return np.array([self.of_sentence(*pair) for pair in zip(outputs, references, strict=True)], np.int64)


def metrics_for(lang: str, lowercase: bool) -> tuple[Metric, Metric]:
    """BLEU with the tokenizer for the target language, and chrF."""
    tokenize = TOKENIZE.get(re.split("[-_]", lang.lower())[0], "13a")
    case = "lc" if lowercase else "mixed"
    return (
        Metric(
            "BLEU",
            f"case:{case}|eff:no|tok:{tokenize}|smooth:exp",
            lambda output, reference: bleu_statistics(output, reference, tokenize, lowercase),
            bleu,
        ),
        Metric(
            "chrF",
            f"case:{case}|eff:yes|nc:6|nw:0|space:no",
            lambda output, reference: chrf_statistics(output, reference, lowercase),
            chrf,
        ),
    )


def measure(outputs: Sequence[str], references: Sequence[str], lang: str, lowercase: bool = False) -> list[Quality]:
    """Corpus scores of `outputs` against one reference each."""
    if not references:
        raise DataError("there are no sentences to score")
    found = []
    for metric in metrics_for(lang, lowercase):
        score = metric.score(metric.statistics(outputs, references).sum(axis=0))
        found.append(Quality(metric.name, score, f"nrefs:1|{metric.settings}|version:regard-{__version__}"))
    return found


@dataclass(frozen=True)
class Comparison:
    """One metric of two systems; `p_value` is the probability of so large a difference between equally good systems."""

    name: str
    first: float
    second: float
    p_value: float
    signature: str


def compare(
    first: Sequence[str],
    second: Sequence[str],
    references: Sequence[str],
    lang: str,
    lowercase: bool = False,
    samples: int = 1000,
) -> list[Comparison]:
    """Paired bootstrap resampling (Koehn 2004) of two systems' outputs for the same sentences.

    The p-value is that of Riezler & Maxwell 2005: how often the difference on resampled sentences, without its mean, is
    larger than the difference on the test set.
    """
    resampled = np.random.default_rng(SEED).integers(len(references), size=(samples, len(references)))
    found = []
    for metric in metrics_for(lang, lowercase):
        one, other = (metric.statistics(outputs, references) for outputs in (first, second))
        score, rival = (metric.score(statistics.sum(axis=0)) for statistics in (one, other))
        differences = np.array(
            [abs(metric.score(one[rows].sum(axis=0)) - metric.score(other[rows].sum(axis=0))) for rows in resampled]
        )
        larger = int((differences - differences.mean() > abs(score - rival)).sum())
        p_value = 1.0 if score == rival else (larger + 1) / (samples + 1)
        signature = f"nrefs:1|bs:{samples}|seed:{SEED}|{metric.settings}|version:regard-{__version__}"
        found.append(Comparison(metric.name, score, rival, p_value, signature))
    return found
