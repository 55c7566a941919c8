"""Every family goes through the same trainer: it learns, goes on exactly where it was cut off, and says what it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from regard.errors import RunError
from regard.pipelines.translator import Translator
from regard.train.launch import resume, start
from regard.train.run_folder import RunFolder

TINY = "d_model = 16, n_encoder_layers = 1, n_decoder_layers = 1, dropout = 0.2"
MODELS = {
    "lstm with additive attention": f"model={{family = 'recurrent', {TINY}}}",
    "gru with dot-product attention": f"model={{family = 'recurrent', cell = 'gru', attention = 'dot', {TINY}}}",
    "rnn without attention": f"model={{family = 'recurrent', cell = 'rnn', attention = 'none', {TINY}}}",
    "gnmt": "model={preset = 'gnmt', d_model = 8}",
    "t5": f"model={{family = 't5', n_heads = 2, head_size = 6, d_ff = 24, {TINY}}}",
    "transformer with experts": f"model={{ffn = 'moe', n_heads = 2, d_ff = 16, moe = {{n_experts = 4}}, {TINY}}}",
}
every_model = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())


@every_model
def test_a_resumed_run_ends_where_an_uninterrupted_run_ends(
    model: str, toy_run: Any, tmp_path: Path, heard: Any
) -> None:
    how = (model, "data.tokenizer.dropout=0.2", "train.ema=0.9", "train.r_drop=1.0", "train.r_drop_after=3")
    whole, broken = RunFolder(tmp_path / "whole"), RunFolder(tmp_path / "broken")
    start(toy_run(*how), whole, heard)
    start(toy_run(*how, "train.max_steps=8"), broken, heard)
    resume(toy_run(*how), broken, heard)
    for name in ("weights.safetensors", "training/weights.safetensors", "training/optimizer.safetensors"):
        ends = [(folder.checkpoint(12) / name).read_bytes() for folder in (whole, broken)]
        assert ends[0] == ends[1], name
    models = [(folder.model / "weights.safetensors").read_bytes() for folder in (whole, broken)]
    assert models[0] == models[1]


def test_bf16_resumes_exactly(toy_run: Any, tmp_path: Path, heard: Any) -> None:
    how = (MODELS["lstm with additive attention"], "train.precision=bfloat16", "model.d_model=32")
    whole, broken = RunFolder(tmp_path / "whole"), RunFolder(tmp_path / "broken")
    start(toy_run(*how), whole, heard)
    start(toy_run(*how, "train.max_steps=7"), broken, heard)
    resume(toy_run(*how), broken, heard)
    ends = [(folder.checkpoint(12) / "weights.safetensors").read_bytes() for folder in (whole, broken)]
    assert ends[0] == ends[1]


@pytest.mark.parametrize(
    ("model", "precision"),
    [*((model, "float32") for model in MODELS.values()), (MODELS["lstm with additive attention"], "bfloat16")],
    ids=[*MODELS, "in bf16"],
)
def test_the_loss_falls(model: str, precision: str, toy_run: Any, tmp_path: Path, heard: Any) -> None:
    steps = ("train.max_steps=30", "train.validate_every=30", "train.lr=1e-2", "model.dropout=0.0")
    start(toy_run(model, f"train.precision={precision}", *steps), RunFolder(tmp_path / "run"), heard)
    losses = [report.loss for report in heard.steps]
    assert sum(losses[-5:]) < 0.9 * sum(losses[:5])


def test_a_run_cannot_go_on_as_another_family(toy_run: Any, tmp_path: Path, heard: Any) -> None:
    folder = RunFolder(tmp_path / "run")
    start(toy_run("train.max_steps=4"), folder, heard)
    with pytest.raises(RunError, match=r"cannot be resumed: .*model\.family.* changed"):
        resume(toy_run(MODELS["gnmt"]), folder, heard)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (
            MODELS["lstm with additive attention"],
            "An LSTM network trained with Regard: 1+1 layers, d_model 16, additive",
        ),
        (
            MODELS["rnn without attention"],
            "A plain recurrent network trained with Regard: 1+1 layers, d_model 16, without",
        ),
        (MODELS["t5"], "A T5 trained with Regard: 1+1 layers, d_model 16, 2 heads of 6, d_ff 24, "),
        ("model.d_model=16", "A Transformer trained with Regard: 1+1 layers, d_model 16, 2 heads, d_ff 32, "),
    ],
)
def test_the_card_says_what_it_is(model: str, words: str, toy_run: Any, tmp_path: Path, heard: Any) -> None:
    outcome = start(toy_run(model, "train.max_steps=1"), RunFolder(tmp_path / "run"), heard)
    assert outcome.model is not None
    assert words in (outcome.model / "README.md").read_text("utf-8")
    assert Translator(outcome.model)("apple") is not None
