"""What the explorer answers about a model and a sentence: one frozen dataclass per answer.

The server sends them as JSON (`wire.to_json`), and the one-file page contains them. The OpenAPI document and the page's
TypeScript types are generated from them, comments included. Indices count from 0; L target length, M source length, H
heads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypedDict

from regard.config import BeamRule, DecodeConfig
from regard.inspect.beam_tree import Node
from regard.inspect.blocks import Stage, Unit
from regard.inspect.heads import HeadFigures
from regard.inspect.interventions import Intervention


@dataclass(frozen=True)
class Limits:
    """The largest request that is answered: attention is quadratic, and the person waits for the answer."""

    characters: int = 2000
    pieces: int = 512
    beam: int = 16
    n_best: int = 16


class ModelSettings(TypedDict):
    """The settings that every model has here. Those of its family are sent too."""

    family: str
    d_model: int
    n_heads: int  # 0: a recurrent model
    d_ff: int
    n_encoder_layers: int
    n_decoder_layers: int
    norm_order: Literal["pre", "post"] | None
    position: str | None
    ffn: str | None


@dataclass(frozen=True)
class Model:
    id: str
    name: str
    src_lang: str
    tgt_lang: str
    parameters: int
    config: ModelSettings
    decode: DecodeConfig
    vocabulary: int  # number of target pieces
    joint: bool  # one vocabulary for source and target
    tokenizer: str
    tokenizer_hash: str  # equal for equal tokenizers: only then do ids mean the same
    embedding_scale: float  # factor of an embedding: √d_model in the paper
    score_scale: float | None  # factor of Q Kᵀ: 1 / √head_size in the paper; null: no dot-product attention
    head_size: int | None
    card: str  # Markdown
    recorded: bool  # it has an attention history
    in_page: bool  # the page computes it itself


@dataclass(frozen=True)
class Models:
    models: tuple[Model, ...]
    limits: Limits
    version: str


@dataclass(frozen=True)
class Piece:
    id: int
    piece: str


@dataclass(frozen=True)
class ScoredPiece(Piece):
    log_prob: float


@dataclass(frozen=True)
class LikelyPiece(Piece):
    probability: float


@dataclass(frozen=True)
class PredictedPiece(LikelyPiece):
    logit: float


@dataclass(frozen=True)
class ChosenPiece(PredictedPiece):
    rank: int  # from 1


@dataclass(frozen=True)
class Alternative:
    text: str
    score: float
    log_prob: float
    finished: bool  # it ends with the end token, rather than at the maximum length
    tokens: tuple[ScoredPiece, ...]


@dataclass(frozen=True)
class Translation:
    source: str
    src: tuple[Piece, ...]
    alternatives: tuple[Alternative, ...]


@dataclass(frozen=True)
class PartialTranslation:
    """The best hypothesis of a search that is still running, as a change to the one before."""

    kept: int  # number of tokens that are unchanged
    added: tuple[ScoredPiece, ...]  # the tokens after those


@dataclass(frozen=True)
class BeamNode(Node):
    piece: str


@dataclass(frozen=True)
class BeamAlternative(Alternative):
    node: int | None  # the last; null: the translation is empty


@dataclass(frozen=True)
class Beam:
    nodes: tuple[BeamNode, ...]
    left_out: int  # pruned nodes that are too many to send
    beam: int
    length_penalty: float
    beam_rule: BeamRule  # what a score is divided by: the paper's ((5 + n) / 6)^α, or n^α
    alternatives: tuple[BeamAlternative, ...]


@dataclass(frozen=True)
class TraceHeader:
    """The arrays are the attention maps, H × L × M in 8 bits, by the paths of their taps."""

    trace: str  # id for further requests
    kernel: str
    text: str
    translation: str
    src: tuple[Piece, ...]
    tgt: tuple[LikelyPiece, ...]
    interventions: tuple[Intervention, ...]  # in effect
    taps: dict[str, tuple[int, ...]]  # the shape of every tap


@dataclass(frozen=True)
class TensorHeader:
    """The array is the tap's value in float32."""

    path: str
    head: int | None


@dataclass(frozen=True)
class ParameterHeader:
    """The array is the parameter in float32."""

    parameter: str
    rows: str | None
    columns: str | None


@dataclass(frozen=True)
class LensLayer:
    """The logit lens: what the model would predict if this decoder layer were the last."""

    layer: int
    top: tuple[PredictedPiece, ...]
    entropy: float  # in nats
    chosen_rank: int
    chosen_probability: float


@dataclass(frozen=True)
class Next:
    step: int
    top: tuple[PredictedPiece, ...]
    entropy: float  # in nats
    chosen: ChosenPiece  # the token of the translation
    lens: tuple[LensLayer, ...]


@dataclass(frozen=True)
class Effects:
    """The log-probabilities of the tokens of a translation, the end token included."""

    before: tuple[float, ...]
    after: tuple[tuple[float, ...], ...]  # under each of the variants


@dataclass(frozen=True)
class Block:
    side: Literal["encoder", "decoder"]
    layer: int
    position: int
    embedded: float  # norm of the embedding
    stages: tuple[Stage, ...]
    units: tuple[Unit, ...]  # of the layer's feed-forward network: those with the largest activation


@dataclass(frozen=True)
class AttentionSummary:
    heads: tuple[HeadFigures, ...]
