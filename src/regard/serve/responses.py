"""The server's own answers; those about a model and a sentence are in `inspect.answers`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypedDict

from regard.inspect.answers import PartialTranslation, Translation
from regard.train.probes import Probe, ProbeOutput
from regard.train.reports import Sample


@dataclass(frozen=True)
class ErrorMessage:
    error: str  # what is wrong
    hint: str  # what to do


@dataclass(frozen=True)
class Health:
    version: str
    models: int
    busy: int  # requests that are computed, or wait to be


@dataclass(frozen=True)
class FinishedTranslation:
    """The last line of a streamed translation."""

    translation: Translation


Line = PartialTranslation | FinishedTranslation | ErrorMessage


@dataclass(frozen=True)
class Run:
    name: str
    step: int
    live: bool  # its process is running
    model: bool  # it has a finished model
    checkpoints: tuple[int, ...]  # steps
    recorded: bool  # it has an attention history of its own


@dataclass(frozen=True)
class ToyState:
    run: str
    running: bool
    error: str | None  # the end of its output, if it failed


@dataclass(frozen=True)
class Runs:
    runs: tuple[Run, ...]
    toy: ToyState | None  # the toy model that was started last


@dataclass(frozen=True)
class ToyStarted:
    run: str


class MetricsKey(TypedDict):
    kind: Literal["step", "validation"]
    step: int


class MetricsRow(MetricsKey, total=False):
    """A line of metrics.jsonl. It may have more keys than these."""

    loss: float
    nll: float  # negative log-likelihood per token
    lr: float
    grad_norm: float
    tokens_per_second: float
    bleu: float | None
    chrf: float | None
    samples: tuple[Sample, ...]


@dataclass(frozen=True)
class Metrics:
    rows: tuple[MetricsRow, ...]


@dataclass(frozen=True)
class AttentionSnapshot:
    step: int
    written: tuple[ProbeOutput, ...]  # one per probe


@dataclass(frozen=True)
class AttentionHistory:
    """The arrays are the attention maps, H × L × M in 8 bits, named "step/probe/tap"."""

    name: str  # of the run or model
    forced: bool  # the translations are given references, not the model's own
    probes: tuple[Probe, ...]
    snapshots: tuple[AttentionSnapshot, ...]
    before: int  # steps of earlier training runs, which the steps include


@dataclass(frozen=True)
class TextModel:
    """A language model or an encoder."""

    id: str
    name: str
    family: str
    generates: bool  # it predicts the next token; otherwise those under masks
    parameters: int
    layers: int
    heads: int


@dataclass(frozen=True)
class TextModels:
    models: tuple[TextModel, ...]


@dataclass(frozen=True)
class TextCandidate:
    piece: str
    text: str  # what it adds to the text
    probability: float


@dataclass(frozen=True)
class TextPrediction:
    position: int  # a language model predicts the token after it, an encoder that in its place
    candidates: tuple[TextCandidate, ...]  # most probable first


@dataclass(frozen=True)
class TextReading:
    """The arrays are the attention maps, H × L × L, and the routers' probabilities, L × E, in 8 bits, by their taps."""

    text: str
    tokens: tuple[str, ...]
    predictions: tuple[TextPrediction, ...]
