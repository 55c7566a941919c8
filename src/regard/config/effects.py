"""Settings without effect: refused when a recipe is read, because a user would not notice that they do nothing.

A value equal to its default is never refused, so that a recipe or a stored config that writes out every setting loads.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from regard.config.models import BertConfig, DeepSeekConfig, RecurrentConfig, TransformerConfig
from regard.config.run import SYNTHETIC, CorpusConfig, RunConfig, is_synthetic
from regard.errors import ConfigError

RUNNING_TEXT = ("language_modelling", "masked_language_modelling", "span_corruption")
CLASSIFICATION = ("text_classification", "image_classification")
Rule = tuple[tuple[str, ...], str]  # settings, and why they have no effect


def check_effects(run: RunConfig) -> None:
    """Raise a ConfigError for the first setting that has no effect in this run."""
    default = RunConfig(model=type(run.model)())
    for names, reason in (*training_rules(run), *data_rules(run), *model_rules(run)):
        for name in names:
            value = look_up(run, name)
            if value != look_up(default, name):
                raise ConfigError(f"{described(name, value)} has no effect: {reason}. Remove it")
    for split in ("train", "valid", "test"):
        for number, corpus in enumerate(getattr(run.data, split)):
            check_corpus(corpus, f"data.{split}[{number}]", split == "train")


def training_rules(run: RunConfig) -> Iterator[Rule]:
    task = run.task
    if run.train.optimizer == "adafactor":
        yield ("train.beta1", "train.beta2", "train.eps"), "train.optimizer = 'adafactor' does not use it"
    if not run.train.r_drop:
        yield ("train.r_drop_after",), "R-Drop is off (train.r_drop = 0)"
    if task != "masked_language_modelling":
        yield ("train.mask_probability",), "only masked language models (family 'bert', head 'masked') use it"
    if task not in RUNNING_TEXT:
        yield ("train.valid_windows",), "only training on running text uses it"
    if task != "translation":
        yield ("train.valid_translations", "train.probes"), "only translation models use it"
    if task in (*CLASSIFICATION, "masked_language_modelling"):
        yield ("train.valid_samples",), "this model generates no text to show"


def data_rules(run: RunConfig) -> Iterator[Rule]:
    task = run.task
    if task != "image_classification":
        yield ("data.horizontal_flip", "data.random_shift"), "only models of images use it"
    else:
        yield ("data.lowercase", "data.tokenizer", "data.filters"), "this model is trained on images, not on text"
    if is_synthetic(run.data):
        yield ("data.lowercase", "data.tokenizer", "data.filters"), "symbols of toy tasks are tokens"
    if task not in CLASSIFICATION:
        yield ("data.label_names",), "only classification uses it"
    if task != "translation":
        names = (
            "data.tokenizer.dropout",
            "data.tokenizer.joint",
            "data.filters.max_ratio",
            "data.filters.drop_identical",
        )
        yield names, "only training on pairs of sentences uses it"


def model_rules(run: RunConfig) -> Iterator[Rule]:
    model = run.model
    if not isinstance(model, RecurrentConfig | DeepSeekConfig) and model.ffn != "moe":
        yield ("model.moe",), f"model.ffn = {model.ffn!r} has no experts (they need model.ffn = 'moe')"
    if not isinstance(model, RecurrentConfig) and model.moe.load_balancing == "none":
        yield ("model.moe.load_balancing_rate",), "model.moe.load_balancing = 'none' does not use it"
    if isinstance(model, TransformerConfig) and model.position != "learned":
        yield ("model.max_positions",), f"model.position = {model.position!r} has no limit"
    if isinstance(model, DeepSeekConfig) and model.rope_scaling_factor == 1:
        yield ("model.rope_original_length",), "positions are not scaled (model.rope_scaling_factor = 1)"
    if isinstance(model, BertConfig) and not {"classes", "tags"} & set(model.heads):
        yield ("model.n_labels",), "none of model.heads predicts labels"
    if run.task in (*CLASSIFICATION, "masked_language_modelling"):
        yield ("decode",), "this model generates no text"


def check_corpus(corpus: CorpusConfig, where: str, in_training: bool) -> None:
    default = CorpusConfig()
    for names, reason in corpus_rules(corpus, in_training):
        for name in names:
            value = getattr(corpus, name)
            if value != getattr(default, name):
                raise ConfigError(f"{described(f'{where}.{name}', value)} has no effect: {reason}. Remove it")


def corpus_rules(corpus: CorpusConfig, in_training: bool) -> Iterator[Rule]:
    if corpus.text:
        yield ("shuffle",), "running text is never shuffled"
        yield ("prefix",), "a prefix is for the sources of pairs, and running text has none"
    else:
        yield ("whole_file", "column"), "it is for running text (`text`)"
    if not corpus.images:
        yield ("labels",), "it is for `images`"
    if not corpus.toy:
        yield ("size",), "it is the size of a toy corpus"
    if corpus.toy not in SYNTHETIC:
        yield ("length", "symbols"), "it is for toy = 'duplicate' and toy = 'recall'"
    if corpus.toy != "recall":
        yield ("pairs",), "it is for toy = 'recall'"
    if not corpus.toy and not corpus.shuffle:
        yield ("seed",), "nothing in this corpus is random"
    if ".jsonl" not in corpus.file:
        yield ("src_field", "tgt_field"), "it names a key of a .jsonl file"
    if not in_training:
        yield ("weight",), "only training corpora are weighted"


def look_up(run: RunConfig, name: str) -> Any:
    value: Any = run
    for part in name.split("."):
        value = getattr(value, part)
    return value


def described(name: str, value: Any) -> str:
    """`train.beta1 = 0.8`; a whole section by its name."""
    return f"[{name}]" if hasattr(value, "__dataclass_fields__") else f"{name} = {value!r}"
