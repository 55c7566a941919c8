"""Settings without effect are refused with a sentence; what is written out at its default is not."""

from __future__ import annotations

from typing import Any

import pytest

from regard.config import FamilyConfig, RunConfig, convert, to_dict
from regard.config.models import FAMILIES
from regard.config.recipe import run_from_dict, stored_run
from regard.errors import ConfigError

GPT = {"family": "gpt"}
BERT = {"family": "bert", "heads": ["masked"]}
CLASSIFIER = {"family": "bert", "heads": ["classes"]}
VIT = {"family": "vit"}
TEXT = {"train": [{"text": "a.txt"}]}


@pytest.mark.parametrize(
    ("tree", "told"),
    [
        (
            {"train": {"optimizer": "adafactor", "beta1": 0.8}},
            "train.beta1 = 0.8 has no effect: train.optimizer = 'adafactor' does not use it. Remove it",
        ),
        ({"train": {"optimizer": "adafactor", "beta2": 0.99}}, "train.beta2 = 0.99 has no effect"),
        ({"train": {"optimizer": "adafactor", "eps": 1e-8}}, "train.eps = 1e-08 has no effect"),
        ({"train": {"r_drop_after": 5}}, "train.r_drop_after = 5 has no effect: R-Drop is off (train.r_drop = 0)"),
        (
            {"train": {"mask_probability": 0.3}},
            "train.mask_probability = 0.3 has no effect: only masked language models",
        ),
        ({"model": GPT, "train": {"mask_probability": 0.3}}, "train.mask_probability = 0.3 has no effect"),
        ({"train": {"valid_windows": 9}}, "train.valid_windows = 9 has no effect: only training on running text"),
        ({"model": VIT, "train": {"valid_windows": 9}}, "train.valid_windows = 9 has no effect"),
        ({"model": GPT, "train": {"valid_translations": 9}}, "train.valid_translations = 9 has no effect"),
        ({"model": GPT, "train": {"probes": ["a"]}}, "has no effect: only translation models use it"),
        ({"model": VIT, "train": {"valid_samples": 1}}, "train.valid_samples = 1 has no effect"),
        (
            {"data": {"horizontal_flip": True}},
            "data.horizontal_flip = True has no effect: only models of images use it",
        ),
        ({"model": BERT, "data": {"random_shift": 2}}, "data.random_shift = 2 has no effect: only models of images"),
        ({"data": {"label_names": ["a", "b"]}}, "has no effect: only classification uses it"),
        ({"model": BERT, "data": {"label_names": ["a", "b"]}}, "has no effect: only classification uses it"),
        ({"model": VIT, "data": {"lowercase": True}}, "has no effect: this model is trained on images, not on text"),
        ({"model": VIT, "data": {"filters": {"max_tokens": 9}}}, "[data.filters] has no effect"),
        ({"model": VIT, "data": {"tokenizer": {"vocab_size": 900}}}, "[data.tokenizer] has no effect"),
        ({"model": GPT, "data": {"tokenizer": {"dropout": 0.1}}}, "data.tokenizer.dropout = 0.1 has no effect"),
        ({"model": GPT, "data": {"filters": {"max_ratio": 3.0}}}, "data.filters.max_ratio = 3.0 has no effect"),
        (
            {"model": {"moe": {"n_experts": 4}}},
            "[model.moe] has no effect: model.ffn = 'relu' has no experts (they need model.ffn = 'moe')",
        ),
        ({"model": {**VIT, "moe": {"gate": "softmax"}}}, "[model.moe] has no effect"),
        (
            {"model": {"ffn": "moe", "moe": {"load_balancing": "none", "load_balancing_rate": 0.1}}},
            "model.moe.load_balancing_rate = 0.1 has no effect",
        ),
        ({"model": {"max_positions": 9}}, "model.max_positions = 9 has no effect: model.position = 'sinusoidal'"),
        ({"model": {"family": "deepseek", "rope_original_length": 9}}, "model.rope_original_length = 9 has no effect"),
        ({"model": {**BERT, "n_labels": 3}}, "model.n_labels = 3 has no effect: none of model.heads predicts labels"),
        ({"model": CLASSIFIER, "decode": {"beam": 1}}, "[decode] has no effect: this model generates no text"),
        ({"data": {"train": [{"src": "a", "whole_file": True}]}}, "data.train[0].whole_file = True has no effect"),
        ({"data": {"train": [{"src": "a"}, {"src": "b", "column": 2}]}}, "data.train[1].column = 2 has no effect"),
        (
            {"data": {"test": [{"src": "a", "labels": "b"}]}},
            "data.test[0].labels = 'b' has no effect: it is for `images`",
        ),
        ({"data": {"train": [{"src": "a", "size": 5}]}}, "data.train[0].size = 5 has no effect"),
        (
            {"data": {"train": [{"src": "a", "seed": 5}]}},
            "data.train[0].seed = 5 has no effect: nothing in this corpus",
        ),
        ({"data": {"train": [{"file": "a.tsv", "src_field": "b"}]}}, "it names a key of a .jsonl file"),
        ({"data": {"valid": [{"src": "a", "weight": 2.0}]}}, "data.valid[0].weight = 2.0 has no effect"),
        ({"model": GPT, "data": {"train": [{"text": "a", "shuffle": True}]}}, "running text is never shuffled"),
        ({"model": GPT, "data": {"train": [{"text": "a", "prefix": "b"}]}}, "running text has none. Remove it"),
    ],
)
def test_a_setting_without_effect_is_refused(tree: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        run_from_dict(tree)
    assert told in str(caught.value)
    stored_run(tree)  # an old run that has it can still be read


@pytest.mark.parametrize(
    "tree",
    [
        {"train": {"optimizer": "adamw", "beta1": 0.8, "eps": 1e-8}},
        {"train": {"r_drop": 1.0, "r_drop_after": 5}},
        {"model": BERT, "data": TEXT, "train": {"mask_probability": 0.3, "valid_windows": 9}},
        {"model": {"family": "t5"}, "data": TEXT, "train": {"valid_windows": 9, "valid_samples": 1}},
        {"model": GPT, "data": TEXT, "train": {"valid_windows": 9, "valid_samples": 1}, "decode": {"temperature": 0.5}},
        {"model": VIT, "data": {"horizontal_flip": True, "random_shift": 1, "label_names": ["a", "b"]}},
        {"model": CLASSIFIER, "data": {"label_names": ["a", "b"], "lowercase": True}},
        {"model": {"ffn": "moe", "moe": {"n_experts": 4, "load_balancing_rate": 0.1}}},
        {"model": {"position": "learned", "max_positions": 300}},
        {
            "model": {
                "family": "deepseek",
                "moe": {"n_experts": 4},
                "rope_scaling_factor": 2.0,
                "rope_original_length": 9,
            }
        },
        {"data": {"train": [{"file": "a.jsonl.gz", "src_field": "b", "shuffle": True, "seed": 3, "weight": 2.0}]}},
        {"decode": {"temperature": 0.5, "top_k": 5}},  # the defaults of `regard translate --sample`
    ],
)
def test_a_setting_with_an_effect_is_accepted(tree: dict[str, Any]) -> None:
    assert run_from_dict(tree) == stored_run(tree)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: str(family.family))
@pytest.mark.parametrize("optimizer", ["adam", "adafactor"])
def test_every_default_may_be_written_out(family: type[FamilyConfig], optimizer: str) -> None:
    tree = to_dict(RunConfig(model=family()))
    tree["train"]["optimizer"] = optimizer
    assert run_from_dict(tree).model == family()


def test_a_stored_model_may_have_settings_without_effect() -> None:
    assert convert(FamilyConfig, {"family": "transformer", "max_positions": 9}, "model").max_positions == 9
