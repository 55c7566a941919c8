"""The settings of a run: frozen dataclasses, and how to build them strictly from plain values.

An unknown key is an error that suggests the nearest right one; a wrong value is an error that names the key, the
value and what it may be. This module imports nothing heavy and knows nothing of the rest of the package.
"""

from __future__ import annotations

import dataclasses
import difflib
import types
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from regard.errors import ConfigError

Position = Literal["sinusoidal", "learned", "rotary", "alibi", "relative", "none"]
NormOrder = Literal["post", "pre"]
NormKind = Literal["layernorm", "rmsnorm"]
FeedForwardKind = Literal["relu", "gelu", "swiglu"]
Sharing = Literal["all", "output", "none"]
CellKind = Literal["rnn", "gru", "lstm"]
RecurrentAttention = Literal["none", "additive", "dot"]
Bidirectional = Literal["none", "first", "all"]
TokenizerKind = Literal["bpe", "unigram"]
Precision = Literal["auto", "float32", "bfloat16"]
SearchPrecision = Literal["auto", "float32", "bfloat16", "int8"]
OptimizerKind = Literal["adam", "adamw"]
ScheduleKind = Literal["inverse_sqrt", "cosine", "constant"]
Metric = Literal["loss", "bleu", "chrf"]
SearchMethod = Literal["beam", "sample"]
ToyTask = Literal["", "copy", "reverse"]

ONE_VOCABULARY = (
    "model.sharing = 'all' needs one vocabulary for both languages: set data.tokenizer.joint = true, "
    "or model.sharing = 'output'"
)


def setting(default: Any, low: float | None = None, high: float | None = None, below: float | None = None) -> Any:
    """A dataclass field with the range of values it may take."""
    return field(default=default, metadata={"low": low, "high": high, "below": below})


@dataclass(frozen=True)
class CorpusConfig:
    """One parallel corpus: two aligned files, one TSV or JSONL file, or a toy task made on the spot."""

    src: str = ""  # one sentence a line, plain, .gz or .zst
    tgt: str = ""
    file: str = ""  # .tsv (source TAB target) or .jsonl (an object a line), plain, .gz or .zst
    src_field: str = "src"  # the JSONL keys
    tgt_field: str = "tgt"
    toy: ToyTask = ""
    size: int = setting(10_000, low=1)  # pairs of a toy corpus
    seed: int = 1  # of a toy corpus
    weight: float = setting(1.0, low=0.0)  # 2: every pair twice an epoch; 0.5: half of the pairs each epoch
    about: str = ""  # what it is and where it is published: shown when it is not there
    published: str = ""


@dataclass(frozen=True)
class TokenizerConfig:
    """The SentencePiece tokenizer: trained on the training corpora unless `files` names one."""

    files: tuple[str, ...] = ()  # ready .model files: one (joint), or two (source, target)
    kind: TokenizerKind = "bpe"
    vocab_size: int = setting(8_000, low=270)
    joint: bool = True
    character_coverage: float = setting(0.9998, low=0.5, high=1.0)
    sampling: float = setting(0.0, low=0.0, below=1.0)  # BPE-dropout's p; unigram: alpha = 1/p − 1; 0: off


@dataclass(frozen=True)
class FilterConfig:
    """Which training pairs are left out."""

    max_tokens: int = setting(256, low=1)  # on either side, counted in pieces
    max_ratio: float = setting(9.0, low=1.0)  # longer side : shorter side, in pieces, when one has more than ten
    drop_identical: bool = True  # source = target


@dataclass(frozen=True)
class DataConfig:
    src_lang: str = ""
    tgt_lang: str = ""
    train: tuple[CorpusConfig, ...] = ()
    valid: tuple[CorpusConfig, ...] = ()
    test: tuple[CorpusConfig, ...] = ()
    lowercase: bool = False
    tokenizer: TokenizerConfig = TokenizerConfig()
    filters: FilterConfig = FilterConfig()


@dataclass(frozen=True)
class ModelConfig:
    """The encoder–decoder Transformer. The defaults are the paper's, at size `small`."""

    family: Literal["transformer"] = field(default="transformer", kw_only=True)
    d_model: int = setting(256, low=1)
    n_heads: int = setting(4, low=1)
    d_ff: int = setting(1024, low=1)
    n_encoder_layers: int = setting(3, low=1)
    n_decoder_layers: int = setting(3, low=1)
    position: Position = "sinusoidal"
    max_positions: int = setting(1024, low=1)  # of learned positions; the others have no limit
    norm_order: NormOrder = "post"
    norm: NormKind = "layernorm"
    ffn: FeedForwardKind = "relu"
    sharing: Sharing = "all"  # all: source, target and output are one matrix; output: target and output
    dropout: float = setting(0.1, low=0.0, below=1.0)
    attention_dropout: float = setting(0.0, low=0.0, below=1.0)
    activation_dropout: float = setting(0.0, low=0.0, below=1.0)
    src_vocab_size: int = setting(0, low=0)  # 0: the tokenizer's
    tgt_vocab_size: int = setting(0, low=0)

    def __post_init__(self) -> None:
        if self.d_model % self.n_heads:
            raise ConfigError(
                f"model.n_heads = {self.n_heads} does not divide model.d_model = {self.d_model}: every head gets "
                f"d_model / n_heads dimensions, so take one of {divisors(self.d_model)}"
            )
        if self.position == "rotary" and (self.d_model // self.n_heads) % 2:
            raise ConfigError(
                f"model.position = 'rotary' turns pairs of dimensions, so d_model / n_heads must be even; "
                f"it is {self.d_model // self.n_heads}"
            )
        if self.sharing == "all" and self.src_vocab_size != self.tgt_vocab_size:
            raise ConfigError(ONE_VOCABULARY)


@dataclass(frozen=True)
class RecurrentConfig:
    """The recurrent encoder–decoder, without attention or with it."""

    family: Literal["recurrent"] = field(default="recurrent", kw_only=True)
    cell: CellKind = "lstm"
    attention: RecurrentAttention = "additive"  # none: the sentence is one vector; additive: Bahdanau's; dot: Luong's
    d_model: int = setting(256, low=1)  # units of a layer, each direction, and size of the embeddings
    n_encoder_layers: int = setting(1, low=1)
    n_decoder_layers: int = setting(1, low=1)
    bidirectional: Bidirectional = "first"  # which encoder layers read the sentence from both ends
    residual: bool = False  # x + layer(x), from the third layer on
    deep_output: bool = True  # the prediction sees context and last word too, not the state alone
    sharing: Sharing = "all"  # all: source, target and output are one matrix; output: target and output
    dropout: float = setting(0.2, low=0.0, below=1.0)
    src_vocab_size: int = setting(0, low=0)  # 0: the tokenizer's
    tgt_vocab_size: int = setting(0, low=0)

    def __post_init__(self) -> None:
        if self.sharing == "all" and self.src_vocab_size != self.tgt_vocab_size:
            raise ConfigError(ONE_VOCABULARY)


# A model of any family. The first is meant where a recipe or a model folder does not say: once it was the only one.
FamilyConfig = ModelConfig | RecurrentConfig


@dataclass(frozen=True)
class TrainConfig:
    seed: int = 1
    max_steps: int = setting(100_000, low=1)
    max_epochs: int = setting(0, low=0)  # 0: no limit but max_steps
    max_minutes: float = setting(0.0, low=0.0)  # 0: no limit
    batch_tokens: int = setting(4096, low=1)  # padded tokens of the longer side in a batch
    accumulate: int = setting(1, low=1)  # batches a step
    optimizer: OptimizerKind = "adam"
    lr: float = setting(0.0, low=0.0)  # the peak; 0: the paper's, (d_model · warmup_steps)^-0.5
    beta1: float = setting(0.9, low=0.0, below=1.0)
    beta2: float = setting(0.98, low=0.0, below=1.0)
    eps: float = setting(1e-9, low=0.0)
    weight_decay: float = setting(0.0, low=0.0)
    schedule: ScheduleKind = "inverse_sqrt"
    warmup_steps: int = setting(4000, low=1)
    clip_norm: float = setting(0.0, low=0.0)  # 0: off
    label_smoothing: float = setting(0.1, low=0.0, below=1.0)
    r_drop: float = setting(0.0, low=0.0)  # weight of the divergence between two dropouts of a batch; 0: off
    r_drop_after: int = setting(0, low=0)  # steps before R-Drop begins: it doubles a step, and early ones gain little
    ema: float = setting(0.0, low=0.0, below=1.0)  # decay of the averaged weights; 0: off
    precision: Precision = "auto"
    threads: int = setting(0, low=0)  # 0: every core
    log_every: int = setting(50, low=1)  # steps
    validate_every: int = setting(0, low=0)  # steps; 0: at the end of each epoch
    checkpoint_every: int = setting(0, low=0)  # steps; 0: at each validation
    keep: int = setting(5, low=1)  # checkpoints kept, besides the best
    average: int = setting(5, low=1)  # last checkpoints averaged into the final model; 1: the best alone
    metric: Metric = "loss"  # what "best" and early stopping look at
    patience: int = setting(0, low=0)  # validations without a better value before stopping; 0: never
    valid_translate: int = setting(200, low=0)  # validation sentences translated for BLEU and chrF
    samples: int = setting(3, low=0)  # of them shown

    def __post_init__(self) -> None:
        if self.average > self.keep:
            raise ConfigError(
                f"train.average = {self.average} but only train.keep = {self.keep} checkpoints are kept: "
                f"raise train.keep, or lower train.average"
            )
        if self.metric != "loss" and not self.valid_translate:
            raise ConfigError(
                f"train.metric = {self.metric!r} needs translations to score: raise train.valid_translate above 0, "
                f"or set train.metric = 'loss'"
            )


@dataclass(frozen=True)
class DecodeConfig:
    method: SearchMethod = "beam"
    beam: int = setting(4, low=1, high=100)  # 1: greedy
    length_penalty: float = setting(0.6, low=0.0)
    max_length_ratio: float = setting(1.0, low=0.0)  # longest output = ratio · source + extra, in pieces
    max_length_extra: int = setting(50, low=1)
    no_repeat_ngram: int = setting(0, low=0)  # no n-gram of this size twice in an output; 0: off
    temperature: float = setting(1.0, low=0.01)
    top_k: int = setting(0, low=0)  # 0: off
    top_p: float = setting(1.0, low=0.0, high=1.0)
    seed: int = 1
    batch_tokens: int = setting(2048, low=1)  # padded source tokens decoded together


@dataclass(frozen=True)
class RunConfig:
    data: DataConfig = DataConfig()
    model: FamilyConfig = ModelConfig()
    train: TrainConfig = TrainConfig()
    decode: DecodeConfig = DecodeConfig()

    def __post_init__(self) -> None:
        tokenizer = self.data.tokenizer
        joint = len(tokenizer.files) == 1 if tokenizer.files else tokenizer.joint
        if self.model.sharing == "all" and not joint:
            raise ConfigError(ONE_VOCABULARY)
        if not isinstance(self.model, ModelConfig) or self.model.position != "learned":
            return
        if self.data.filters.max_tokens >= self.model.max_positions:
            raise ConfigError(
                f"model.max_positions = {self.model.max_positions} learned positions are too few for sentences of up "
                f"to data.filters.max_tokens = {self.data.filters.max_tokens} pieces and their end: raise the one, "
                f"or lower the other"
            )


PRESETS: dict[str, dict[str, Any]] = {
    "tiny": {"d_model": 128, "n_heads": 4, "d_ff": 256, "n_encoder_layers": 4, "n_decoder_layers": 4, "dropout": 0.3},
    "small": {"d_model": 256, "n_heads": 4, "d_ff": 1024, "n_encoder_layers": 3, "n_decoder_layers": 3, "dropout": 0.1},
    "base": {"d_model": 512, "n_heads": 8, "d_ff": 2048, "n_encoder_layers": 6, "n_decoder_layers": 6, "dropout": 0.1},
    "big": {"d_model": 1024, "n_heads": 16, "d_ff": 4096, "n_encoder_layers": 6, "n_decoder_layers": 6, "dropout": 0.3},
    # Sutskever et al. 2014: four layers, one vector between the languages.
    "lstm": {
        "family": "recurrent", "cell": "lstm", "attention": "none", "d_model": 1000, "n_encoder_layers": 4,
        "n_decoder_layers": 4, "bidirectional": "none", "deep_output": False, "sharing": "none",
    },
    # Bahdanau et al. 2015: one layer, read from both ends, attended to.
    "bahdanau": {
        "family": "recurrent", "cell": "gru", "attention": "additive", "d_model": 1000, "n_encoder_layers": 1,
        "n_decoder_layers": 1, "bidirectional": "first", "deep_output": True, "sharing": "none",
    },
    # Wu et al. 2016: eight layers and eight.
    "gnmt": {
        "family": "recurrent", "cell": "lstm", "attention": "additive", "d_model": 1024, "n_encoder_layers": 8,
        "n_decoder_layers": 8, "bidirectional": "first", "residual": True, "deep_output": False, "sharing": "none",
    },
}  # fmt: skip


def to_dict(config: Any) -> dict[str, Any]:
    """Nested dictionaries of plain values: what is written to JSON."""
    return dataclasses.asdict(config)


T = TypeVar("T")


def build(kind: type[T], tree: Any, where: str) -> T:
    """A dataclass from a dictionary, with every key known and every value of the right kind."""
    if not isinstance(tree, Mapping):
        raise ConfigError(f"{where or 'the recipe'} must be a table of settings, not {tree!r}")
    hints = get_type_hints(kind)
    fields = {f.name: f for f in dataclasses.fields(kind)}  # type: ignore[arg-type]
    values: dict[str, Any] = {}
    for key, value in tree.items():
        name = f"{where}.{key}" if where else key
        if key not in fields:
            raise ConfigError(f"unknown key {name}; {suggestion(key, fields)}")
        values[key] = convert(hints[key], value, name)
        check_range(name, values[key], fields[key].metadata)
    return kind(**values)


def convert(kind: Any, value: Any, name: str) -> Any:
    """`value` as the type that the setting has, or an error that says what it may be."""
    origin = get_origin(kind)
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return build(kind, value, name)
    if origin is Literal:
        if value not in get_args(kind):
            raise ConfigError(f"{name} = {value!r} is not possible; it may be one of {listed(get_args(kind))}")
        return value
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise ConfigError(f"{name} must be a list, not {value!r}")
        inner = get_args(kind)[0]
        return tuple(convert(inner, item, f"{name}[{i}]") for i, item in enumerate(value))
    if origin in (Union, types.UnionType):
        return build_family(get_args(kind), value, name)
    right = isinstance(value, kind) and not (isinstance(value, bool) and kind is not bool)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not right:
        what = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}[kind]
        raise ConfigError(f"{name} = {value!r} is not possible; it must be {what}")
    return value


def build_family(kinds: tuple[Any, ...], tree: Any, where: str) -> Any:
    """One of several dataclasses, told apart by `family`, which has one value in each; without it, the first."""
    if not isinstance(tree, Mapping):
        raise ConfigError(f"{where} must be a table of settings, not {tree!r}")
    families = {kind.family: kind for kind in kinds}
    family = tree.get("family", kinds[0].family)
    if family not in list(families):
        raise ConfigError(f"{where}.family = {family!r} is not possible; it may be one of {listed(families)}")
    own = {f.name for f in dataclasses.fields(families[family])}
    for key in tree:
        others = [name for name, kind in families.items() if key in {f.name for f in dataclasses.fields(kind)}]
        if key not in own and others:
            raise ConfigError(
                f"{where}.{key} is a setting of the family {listed(others)}, but this model's is {family!r}: "
                f"remove the setting, or change {where}.family"
            )
    return build(families[family], tree, where)


def check_range(name: str, value: Any, limits: Mapping[str, Any]) -> None:
    low, high, below = limits.get("low"), limits.get("high"), limits.get("below")
    if not isinstance(value, int | float) or isinstance(value, bool):
        return
    if value != value or (low is not None and value < low):
        raise ConfigError(f"{name} = {value!r} is too small; the least is {low}")
    if high is not None and value > high:
        raise ConfigError(f"{name} = {value!r} is too large; the most is {high}")
    if below is not None and value >= below:
        raise ConfigError(f"{name} = {value!r} is too large; it must be below {below}")


def suggestion(wrong: str, right: Any) -> str:
    near = difflib.get_close_matches(wrong, list(right), n=1, cutoff=0.5)
    return f"did you mean {near[0]!r}?" if near else f"it may be one of {listed(sorted(right))}"


def listed(names: Any) -> str:
    return ", ".join(repr(name) for name in names)


def divisors(number: int) -> list[int]:
    return [n for n in range(1, number + 1) if number % n == 0][:24]
