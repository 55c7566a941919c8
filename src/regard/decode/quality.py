"""How good translations are: sacreBLEU's BLEU and chrF, with the signatures that make a figure comparable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.significance import PairedTest


@dataclass(frozen=True)
class Quality:
    name: str
    score: float
    signature: str


def metrics_for(lang: str, lowercase: bool) -> dict[str, BLEU | CHRF]:
    """BLEU with the tokenisation that fits the target language, and chrF."""
    tokenize = {"zh": "zh", "ja": "char", "th": "char"}.get(lang.split("-")[0].lower(), "13a")
    return {"BLEU": BLEU(lowercase=lowercase, tokenize=tokenize), "chrF": CHRF(lowercase=lowercase)}


def measure(outputs: Sequence[str], references: Sequence[str], lang: str, lowercase: bool = False) -> list[Quality]:
    """Corpus scores of `outputs` against one reference each."""
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
    first: Sequence[str], second: Sequence[str], references: Sequence[str], lang: str, samples: int = 1000
) -> list[Comparison]:
    """Paired bootstrap resampling (Koehn 2004) of two systems' outputs for the same sentences."""
    systems: list[tuple[str, Sequence[str]]] = [("first", list(first)), ("second", list(second))]
    test = PairedTest(systems, metrics_for(lang, False), [list(references)], test_type="bs", n_samples=samples)
    signatures, results = test()
    found = []
    for name in ("BLEU", "chrF"):
        baseline, other = results[name]
        key = next(key for key in signatures if key.startswith(name))
        assert not isinstance(baseline, str)
        assert not isinstance(other, str)
        p_value = float(other.p_value if other.p_value is not None else 1.0)
        found.append(Comparison(name, baseline.score, other.score, p_value, str(signatures[key])))
    return found
