"""The settings of a run: frozen dataclasses that import nothing heavy.

Those of a model are in `models/`, one module per family; `parsing.py` builds all of them from plain values.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from regard.config.models import (
    ONE_VOCABULARY,
    FamilyConfig,
    TrainingTask,
    TransformerConfig,
    TranslationConfig,
)
from regard.config.parsing import listed, setting
from regard.errors import ConfigError

TokenizerKind = Literal["bpe", "unigram", "characters"]  # characters: for models of one text
Precision = Literal["auto", "float32", "bfloat16", "int8"]
OptimizerKind = Literal["adam", "adamw", "adafactor"]
ScheduleKind = Literal["inverse_sqrt", "cosine", "constant"]
Metric = Literal["loss", "bleu", "chrf", "accuracy"]
SearchMethod = Literal["beam", "sample"]
BeamRule = Literal["paper", "huggingface"]
ToyTask = Literal["", "copy", "reverse", "duplicate", "recall"]
SYNTHETIC: tuple[ToyTask, ...] = ("duplicate", "recall")  # for language models; the others are for translation
LARGEST_SEED = 2**63 - 1  # accepted by every random number generator


@dataclass(frozen=True)
class CorpusConfig:
    """One corpus: two aligned files, one TSV or JSONL file, running text, images, or a generated toy task.

    Translation models are trained on sentence pairs; text classifiers on pairs of a text and its label.
    """

    src: str = ""  # one sentence per line, plain, .gz or .zst
    tgt: str = ""
    file: str = ""  # .tsv (source TAB target) or .jsonl (one object per line), plain, .gz or .zst
    src_field: str = "src"  # the JSONL keys
    tgt_field: str = "tgt"
    text: str = ""  # running text, for models of one text: one text per line, plain, .gz or .zst
    whole_file: bool = setting(False, formerly="whole")  # `text` is one text, line breaks included
    column: int = setting(0, low=0)  # column of `text`, a TAB-separated file, from 1; 0: the whole line
    start: float = setting(0.0, low=0.0, high=1.0)  # use the part from this fraction of the corpus …
    stop: float = setting(1.0, low=0.0, high=1.0)  # … to this one
    shuffle: bool = False  # with `seed`, before the part is selected; running text (`text`) is never shuffled
    images: str = ""  # for models of images: an IDX file, plain or .gz, with `labels`; or a folder with one per class
    labels: str = ""
    toy: ToyTask = ""
    size: int = setting(10_000, low=1)  # examples of a toy corpus
    length: int = setting(64, low=4, high=1_000_000)  # of toy = "duplicate" and "recall": tokens of an example
    pairs: int = setting(4, low=1)  # of toy = "recall": keys and their values
    symbols: int = setting(128, low=2, high=20_000)  # of both: the vocabulary
    seed: int = setting(1, low=0, high=LARGEST_SEED)  # of a toy corpus, and of a shuffle
    prefix: str = ""  # put before every source, to select a task of a multi-task model: "translate to German: "
    weight: float = setting(1.0, low=0.0)  # 2: every pair twice per epoch; 0.5: half of the pairs in each epoch
    about: str = ""  # a description, and the address: shown when the corpus is missing
    published: str = ""
    licence: str = ""  # for the model card


@dataclass(frozen=True)
class TokenizerConfig:
    """The tokenizer: trained on the training corpora unless `files` names one."""

    files: tuple[str, ...] = ()  # existing .model files: one (joint), or two (source, target)
    kind: TokenizerKind = "bpe"
    vocab_size: int = setting(8_000, low=270)
    joint: bool = True
    character_coverage: float = setting(0.9998, low=0.5, high=1.0)
    split_han: bool = False  # every Han character is a piece of its own; best with joint = false
    # BPE-dropout probability p; unigram: subword sampling with alpha = 1/p − 1; 0: off
    dropout: float = setting(0.0, low=0.0, below=1.0, formerly="sampling")


@dataclass(frozen=True)
class FilterConfig:
    """Filters of training pairs."""

    max_tokens: int = setting(256, low=1)  # per side
    max_ratio: float = setting(9.0, low=1.0)  # longer side : shorter side, in tokens, if one has more than ten
    drop_identical: bool = True  # source = target


@dataclass(frozen=True)
class DataConfig:
    src_lang: str = ""
    tgt_lang: str = ""
    train: tuple[CorpusConfig, ...] = ()
    valid: tuple[CorpusConfig, ...] = ()
    test: tuple[CorpusConfig, ...] = ()
    lowercase: bool = False
    label_names: tuple[str, ...] = ()  # class names, in order; IDX files contain class numbers only
    horizontal_flip: bool = setting(False, formerly="mirror")  # flip half of the training images, a new half per epoch
    random_shift: int = setting(0, low=0, high=64, formerly="shift")  # shift training images by up to this many pixels
    tokenizer: TokenizerConfig = TokenizerConfig()
    filters: FilterConfig = FilterConfig()


@dataclass(frozen=True)
class TrainConfig:
    seed: int = setting(1, low=0, high=LARGEST_SEED)
    init_from: str = setting("", formerly="init")  # a model folder: its tokenizer, and every weight of the same shape
    max_steps: int = setting(100_000, low=1)
    max_epochs: int = setting(0, low=0)  # 0: no limit other than max_steps
    max_minutes: float = setting(0.0, low=0.0)  # 0: no limit
    batch_tokens: int = setting(4096, low=1)  # padded tokens of the longer side in a batch
    gradient_accumulation_steps: int = setting(1, low=1, formerly="accumulate")  # batches per optimizer step
    optimizer: OptimizerKind = "adam"
    lr: float = setting(0.0, low=0.0)  # the peak; 0: the paper's, (d_model · warmup_steps)^-0.5
    beta1: float = setting(0.9, low=0.0, below=1.0)
    beta2: float = setting(0.98, low=0.0, below=1.0)
    eps: float = setting(1e-9, low=0.0)
    weight_decay: float = setting(0.0, low=0.0)
    schedule: ScheduleKind = "inverse_sqrt"
    warmup_steps: int = setting(4000, low=1)
    cooldown: float = setting(0.0, low=0.0, high=1.0)  # final fraction of the run with a linear decay of the rate to 0
    clip_norm: float = setting(0.0, low=0.0)  # 0: off
    label_smoothing: float = setting(0.1, low=0.0, below=1.0)
    r_drop: float = setting(0.0, low=0.0)  # weight of the KL divergence between two dropout samples; 0: off
    r_drop_after: int = setting(0, low=0)  # step at which R-Drop begins; it doubles the time per step
    # share of the tokens that a masked language model is trained to predict
    mask_probability: float = setting(0.15, low=0.01, high=0.9, formerly="masked")
    ema: float = setting(0.0, low=0.0, below=1.0)  # decay of the averaged weights; 0: off
    precision: Precision = "auto"
    threads: int = setting(0, low=0, high=1024)  # 0: every core; many thousands crash OpenMP
    log_every: int = setting(50, low=1)  # steps
    validate_every: int = setting(0, low=0)  # steps; 0: at the end of each epoch
    checkpoint_every: int = setting(0, low=0)  # steps; 0: at each validation
    keep_checkpoints: int = setting(5, low=1, formerly="keep")  # number of last checkpoints to keep, besides the best
    # last checkpoints averaged into the final model; 1: the best checkpoint alone
    average_checkpoints: int = setting(5, low=1, formerly="average")
    metric: Metric = "loss"  # determines the best checkpoint and early stopping
    patience: int = setting(0, low=0)  # validations without a better value before stopping; 0: never
    # validation sentences that are translated for BLEU and chrF
    valid_translations: int = setting(200, low=0, formerly="valid_translate")
    valid_windows: int = setting(512, low=0)  # windows of running text per validation; 0: all
    valid_samples: int = setting(3, low=0, formerly="samples")  # translations or texts shown per validation
    probes: tuple[str, ...] = ()  # source sentences whose attention is recorded during training, for the explorer

    def __post_init__(self) -> None:
        if self.average_checkpoints > self.keep_checkpoints:
            raise ConfigError(
                f"train.average_checkpoints = {self.average_checkpoints} but only train.keep_checkpoints = "
                f"{self.keep_checkpoints} checkpoints are kept: "
                f"raise train.keep_checkpoints, or lower train.average_checkpoints"
            )
        if self.metric in ("bleu", "chrf") and not self.valid_translations:
            raise ConfigError(
                f"train.metric = {self.metric!r} needs translations to score: raise train.valid_translations above 0, "
                f"or set train.metric = 'loss'"
            )


@dataclass(frozen=True)
class DecodeConfig:
    method: SearchMethod = "beam"
    beam: int = setting(4, low=1, high=100)  # 1: greedy
    beam_rule: BeamRule = "paper"  # length penalty and stopping rule; huggingface: those of transformers' generate()
    length_penalty: float = setting(0.6, low=0.0, high=10.0)
    max_length_ratio: float = setting(1.0, low=0.0, high=100.0)  # maximum length = ratio · source + extra, in tokens
    max_length_extra: int = setting(50, low=1)
    no_repeat_ngram: int = setting(0, low=0)  # block repeated n-grams of this size; 0: off
    temperature: float = setting(1.0, low=0.01, high=100.0)
    top_k: int = setting(0, low=0)  # 0: off
    top_p: float = setting(1.0, low=0.0, high=1.0)
    seed: int = setting(1, low=0, high=LARGEST_SEED)
    batch_tokens: int = setting(2048, low=1)  # padded source tokens decoded together


def is_synthetic(data: DataConfig) -> bool:
    return any(corpus.toy in SYNTHETIC for corpus in (*data.train, *data.valid))


def learns_from_text(data: DataConfig) -> bool:
    return any(corpus.text for corpus in data.train)


# Metrics of a validation besides the loss.
METRICS: dict[TrainingTask | None, tuple[Metric, ...]] = {
    "translation": ("bleu", "chrf"),
    "text_classification": ("accuracy",),
    "image_classification": ("accuracy",),
}


@dataclass(frozen=True)
class RunConfig:
    data: DataConfig = DataConfig()
    model: FamilyConfig = field(default_factory=TransformerConfig)
    train: TrainConfig = TrainConfig()
    decode: DecodeConfig = DecodeConfig()

    @property
    def task(self) -> TrainingTask | None:
        """What training teaches the model; None: it has no head that can be trained."""
        return self.model.task(learns_from_text(self.data))

    def __post_init__(self) -> None:
        metrics = ("loss", *METRICS.get(self.task, ()))
        if self.train.metric not in metrics:
            raise ConfigError(
                f"train.metric = {self.train.metric!r} is not measured for this model; "
                f"it may be one of {listed(metrics)}"
            )
        if self.train.patience and not self.data.valid:
            raise ConfigError(
                f"train.patience = {self.train.patience} stops training by the validation score, and there is no "
                f"[[data.valid]]: add one, or remove train.patience"
            )
        if not isinstance(self.model, TranslationConfig):
            return
        tokenizer = self.data.tokenizer
        if tokenizer.kind == "characters":
            raise ConfigError(
                "data.tokenizer.kind = 'characters' is for language models: translation models use 'bpe' or 'unigram'"
            )
        joint = len(tokenizer.files) == 1 if tokenizer.files else tokenizer.joint
        if self.model.tie_embeddings in ("all", "inputs") and not joint:
            raise ConfigError(ONE_VOCABULARY)
        if not isinstance(self.model, TransformerConfig) or self.model.position != "learned":
            return
        if self.data.filters.max_tokens >= self.model.max_positions:
            raise ConfigError(
                f"model.max_positions = {self.model.max_positions} learned positions are too few for sentences of up "
                f"to data.filters.max_tokens = {self.data.filters.max_tokens} tokens and EOS: raise the "
                f"former, or lower the latter"
            )
