"""Translation quality: BLEU and chrF by sacreBLEU, with the signatures that make scores comparable."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.significance import PairedTest

from regard.errors import DataError

# Languages written without spaces: sacreBLEU's own word segmentation, or one token per character.
TOKENIZE = {"zh": "zh", "yue": "zh", "wuu": "zh", "lzh": "zh"} | dict.fromkeys(("ja", "th", "lo", "my", "km"), "char")


@dataclass(frozen=True)
class Quality:
    name: str
    score: float
    signature: str


def metrics_for(lang: str, lowercase: bool) -> dict[str, BLEU | CHRF]:
    """BLEU with the tokenisation for the target language, and chrF."""
    tokenize = TOKENIZE.get(re.split("[-_]", lang.lower())[0], "13a")
    return {"BLEU": BLEU(lowercase=lowercase, tokenize=tokenize), "chrF": CHRF(lowercase=lowercase)}


def measure(outputs: Sequence[str], references: Sequence[str], lang: str, lowercase: bool = False) -> list[Quality]:
    """Corpus scores of `outputs` against one reference each."""
    if not references:
        raise DataError("there are no sentences to score")
    found = []
    for name, metric in metrics_for(lang, lowercase).items():
        score = metric.corpus_score(list(outputs), [list(references)]).score
        found.append(Quality(name, score, str(metric.get_signature())))
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
    """Paired bootstrap resampling (Koehn 2004) of two systems' outputs for the same sentences."""
    systems: list[tuple[str, Sequence[str]]] = [("first", list(first)), ("second", list(second))]
    metrics = metrics_for(lang, lowercase)
    test = PairedTest(systems, metrics, [list(references)], test_type="bs", n_samples=samples)
    signatures, results = test()
    found = []
    # The test has its own names for the metrics (chrF is chrF2), but the same order.
    for name, key in zip(metrics, signatures, strict=True):
        baseline, other = results[key]
        assert not isinstance(baseline, str)
        assert not isinstance(other, str)
        assert other.p_value is not None
        # For two equal systems sacreBLEU reports p = 0.001: no resample differs by more than they do.
        p_value = 1.0 if baseline.score == other.score else float(other.p_value)
        found.append(Comparison(name, float(baseline.score), float(other.score), p_value, str(signatures[key])))
    return found
