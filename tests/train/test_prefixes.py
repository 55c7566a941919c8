"""One model, several tasks: prefixes in the recipe, in the model folder and on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from regard.config.recipe import run_from_dict
from regard.errors import ConfigError
from regard.model_folder.folder import read_description
from regard.pipelines.translator import Translator
from regard.train.launch import start
from regard.train.run_folder import RunFolder


def two_tasks(*prefixes: str) -> Any:
    corpora = [
        {"toy": toy, "size": 60, "prefix": prefix} for toy, prefix in zip(("copy", "reverse"), prefixes, strict=True)
    ]
    return run_from_dict(
        {
            "data": {"train": corpora, "valid": corpora, "tokenizer": {"vocab_size": 300}},
            "model": {"family": "t5", "d_model": 16, "n_heads": 2, "head_size": 8, "d_ff": 16, "n_encoder_layers": 1}
            | {"n_decoder_layers": 1},
            "train": {"max_steps": 2, "threads": 1, "precision": "float32", "valid_translations": 2},
        }
    )


def test_a_task_is_selected_by_name_or_by_the_text(tmp_path: Path, heard: Any) -> None:
    outcome = start(two_tasks("say again: ", "turn round: "), RunFolder(tmp_path / "run"), heard)
    assert outcome.model is not None
    assert read_description(outcome.model).tasks == ("say again: ", "turn round: ")
    translator = Translator(outcome.model)
    texts = ["apple river", "stone"]
    by_name = [one.alternatives[0].log_prob for one in translator.translate(texts, task="turn round: ")]
    by_word = [one.alternatives[0].log_prob for one in translator.translate(texts, task="turn")]
    by_text = [one.alternatives[0].log_prob for one in translator.translate([f"turn round: {text}" for text in texts])]
    other = [one.alternatives[0].log_prob for one in translator.translate(texts, task="again")]
    none = [one.alternatives[0].log_prob for one in translator.translate(texts, task="")]
    assert by_name == by_word == by_text
    assert by_name != other != none != by_name
    with pytest.raises(ConfigError, match=r"has several tasks; choose one .* 'say again: ', 'turn round: '"):
        translator("apple")
    with pytest.raises(ConfigError, match="no task matches 'x'; choose one of 'say again: ', 'turn round: '"):
        translator.translate(texts, task="x")
    with pytest.raises(ConfigError, match="2 tasks match 'n'; choose one of 'say again: ', 'turn round: '"):
        translator.translate(texts, task="n")


def test_a_single_task_needs_no_option(tmp_path: Path, heard: Any) -> None:
    outcome = start(two_tasks("go: ", "go: "), RunFolder(tmp_path / "run"), heard)
    assert outcome.model is not None
    translator = Translator(outcome.model)
    said, unsaid = (translator.translate([text])[0].alternatives[0].log_prob for text in ("go: apple", "apple"))
    assert said == unsaid
    assert said != translator.translate(["apple"], task="")[0].alternatives[0].log_prob


def test_a_task_beside_texts_without_a_prefix(tmp_path: Path, heard: Any) -> None:
    outcome = start(two_tasks("", "turn round: "), RunFolder(tmp_path / "run"), heard)
    assert outcome.model is not None
    translator = Translator(outcome.model)

    def log_prob(text: str, task: str) -> float:
        return translator.translate([text], task=task)[0].alternatives[0].log_prob

    assert log_prob("apple", "turn") == log_prob("turn round: apple", "") != log_prob("apple", "")


def test_a_model_without_tasks_knows_none(tmp_path: Path, heard: Any) -> None:
    outcome = start(two_tasks("", ""), RunFolder(tmp_path / "run"), heard)
    assert outcome.model is not None
    assert read_description(outcome.model).tasks == ()
    with pytest.raises(ConfigError, match=r"no task matches .*; the model has no tasks"):
        Translator(outcome.model).translate(["apple"], task="copy")
