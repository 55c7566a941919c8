"""Reports of a training run, and the listener protocol that receives them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

from regard.config import Metric


@dataclass(frozen=True)
class Balance:
    """Load balance of the experts."""

    entropy: float  # normalised: 0 is one expert for all tokens, 1 is a uniform load
    busiest: float  # maximum load, as a multiple of the mean
    idle: int  # number of experts without tokens


@dataclass(frozen=True)
class Spans:
    """How far back the heads of adaptive attention look, in tokens."""

    mean: float
    longest: float
    heads: dict[str, tuple[float, ...]]  # by the attention's place in the model


@dataclass(frozen=True)
class Buckets:
    """The buckets of LSH attention."""

    mean: float  # tokens, empty buckets included
    largest: int
    seen: float  # of the pairs that full attention would see, 0 to 1


@dataclass(frozen=True)
class StepReport:
    """The steps since the last report."""

    step: int
    epoch: int
    loss: float  # the objective, per target token
    nll: float  # −log p of the right token, without smoothing
    lr: float
    grad_norm: float
    tokens_per_second: float  # real target tokens
    seconds: float  # of training so far
    seconds_left: float
    balance: Balance | None = None  # of a model with experts
    spans: Spans | None = None  # of a model with adaptive spans
    buckets: Buckets | None = None  # of a model with LSH attention

    @property
    def perplexity(self) -> float:
        return perplexity(self.nll)

    def row(self) -> dict[str, Any]:
        parts = {"balance": self.balance, "spans": self.spans, "buckets": self.buckets}
        known = {name: value for name, value in vars(self).items() if name not in parts}
        found = {name: vars(part) for name, part in parts.items() if part is not None}
        return {"kind": "step", **known, **found, "perplexity": self.perplexity}


@dataclass(frozen=True)
class Sample:
    source: str
    reference: str
    output: str


@dataclass(frozen=True)
class ValidationReport:
    step: int
    epoch: int
    nll: float
    bleu: float | None
    chrf: float | None
    seconds: float
    samples: tuple[Sample, ...]
    accuracy: float | None = None  # for classification
    best: bool = False

    @property
    def perplexity(self) -> float:
        return perplexity(self.nll)

    def goodness(self, metric: Metric) -> float:
        """The selected metric, negated if lower is better."""
        value = {"loss": -self.nll, "bleu": self.bleu, "chrf": self.chrf, "accuracy": self.accuracy}[metric]
        return -math.inf if value is None else value

    def scores(self) -> dict[str, float]:
        found = {"loss": self.nll, "BLEU": self.bleu, "chrF": self.chrf, "accuracy": self.accuracy}
        if self.accuracy is None:  # perplexity is for text
            found["perplexity"] = self.perplexity
        return {name: value for name, value in found.items() if value is not None}

    def row(self) -> dict[str, Any]:
        samples = [vars(sample) for sample in self.samples]
        return {"kind": "validation", **vars(self), "perplexity": self.perplexity, "samples": samples}


def perplexity(nll: float) -> float:
    return math.exp(min(nll, 700.0))


class Listener(Protocol):
    """Receives the reports of a run: a display, a test, the explorer."""

    def message(self, text: str) -> None: ...

    def step(self, report: StepReport) -> None: ...

    def validation(self, report: ValidationReport) -> None: ...
