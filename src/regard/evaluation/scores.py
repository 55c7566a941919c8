"""How good translations are: sacreBLEU's BLEU and chrF, with the signatures that make a figure comparable."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.significance import PairedTest

from regard.errors import DataError

# Languages that write no spaces: words are split by sacreBLEU's own rules, or every character is one.
TOKENIZE = {"zh": "zh", "yue": "zh", "wuu": "zh", "lzh": "zh"} | dict.fromkeys(("ja", "th", "lo", "my", "km"), "char")


@dataclass(frozen=True)
class Quality:
    name: str
    score: float
    signature: str


def metrics_for(lang: str, lowercase: bool) -> dict[str, BLEU | CHRF]:
    """BLEU with the tokenisation that fits the target language, and chrF."""
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
    """One metric of two systems; `p_value` is the chance of so large a difference between equals."""

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
    # The test names each metric in its own way (chrF is chrF2), but keeps their order.
    for name, key in zip(metrics, signatures, strict=True):
        baseline, other = results[key]
        assert not isinstance(baseline, str)
        assert not isinstance(other, str)
        assert other.p_value is not None
        # Of two equal systems sacreBLEU says p = 0.001: no resample differs by more than they do.
        p_value = 1.0 if baseline.score == other.score else float(other.p_value)
        found.append(Comparison(name, float(baseline.score), float(other.score), p_value, str(signatures[key])))
    return found
