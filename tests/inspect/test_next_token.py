from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch

from regard.inspect.blocks import cosine, most_active, stages
from regard.inspect.next_token import logit_lens, next_token, predict
from regard.pipelines.model_translator import ModelTranslator
from regard.tokenizers.special_ids import EOS

SOURCE, TARGET = "apple baby bird", "bird baby apple"


def test_a_prediction_that_can_be_worked_out() -> None:
    said = predict(torch.tensor([0.5, 0.25, 0.125, 0.125]).log(), chosen=3, k=2)
    assert [(guess.id, guess.probability) for guess in said.top] == [(0, pytest.approx(0.5)), (1, pytest.approx(0.25))]
    assert said.entropy == pytest.approx(1.75 * math.log(2))
    assert (said.rank, said.chosen.probability) == (4, pytest.approx(0.125))  # of equals, the first ranks before
    assert len(predict(torch.zeros(4), 0, 100).top) == 4


def test_a_token_that_is_impossible() -> None:
    said = predict(torch.tensor([0.0, -torch.inf]), chosen=1, k=2)
    assert (said.entropy, said.chosen.probability, said.rank) == (0, 0, 2)


def test_the_last_layer_says_what_the_model_says(reverse: ModelTranslator) -> None:
    trace = reverse.trace(SOURCE, TARGET)
    wanted = [*reverse.tokenizer.encode_tgt([TARGET])[0], EOS]
    for step, chosen in enumerate(wanted):
        said = next_token(trace, step, chosen, 5)
        assert said.chosen.probability == pytest.approx(trace.probabilities[step], abs=1e-6)
        lens = logit_lens(reverse.model, trace, step, chosen, 5)
        assert len(lens) == 1
        assert [guess.id for guess in lens[-1].top] == [guess.id for guess in said.top]
        assert lens[-1].chosen.probability == pytest.approx(said.chosen.probability, abs=1e-5)


T5 = {"family": "t5", "n_heads": 2, "head_size": 8, "d_ff": 16}


def shake_bias(model: Any, vocabulary: Any) -> None:
    if model.output_bias is not None:
        model.output_bias.uniform_(-2, 2)


@pytest.mark.parametrize(
    "sizes", [{"norm_order": "pre"}, {"norm_order": "post"}, {"output_bias": True}, T5, {**T5, "output_bias": True}]
)
def test_the_lens_of_deeper_models(random_model: Any, sizes: dict[str, Any]) -> None:
    translator = ModelTranslator(random_model(n_decoder_layers=3, change=shake_bias, **sizes))
    trace = translator.trace(SOURCE, TARGET)
    lens = logit_lens(translator.model, trace, 1, 5, 3)
    said = next_token(trace, 1, 5, 3)
    assert len(lens) == 3
    assert lens[2].chosen.logit == pytest.approx(said.chosen.logit, abs=1e-4)
    assert abs(lens[0].chosen.logit - said.chosen.logit) > 1e-4


@pytest.mark.parametrize("order", ["pre", "post"])
def test_the_stages_follow_one_another(random_model, order: str) -> None:  # type: ignore[no-untyped-def]
    translator = ModelTranslator(random_model(norm_order=order))
    trace = translator.trace(SOURCE, TARGET)
    found = stages(trace, "decoder", 2, pre=order == "pre")
    assert [stage.where for stage in found] == [
        f"decoder.{layer}.{sublayer}" for layer in (0, 1) for sublayer in ("attention", "cross", "ffn")
    ]
    assert found[0].before == pytest.approx(np.linalg.norm(trace["tgt_embedded"][2]))
    for one, after in itertools.pairwise(found):
        assert one.after == after.before
    for stage in found:  # the law of cosines
        squared = stage.before**2 + stage.change**2 + 2 * stage.before * stage.change * stage.cosine
        assert stage.resid**2 == pytest.approx(squared, rel=1e-4)
        assert order == "post" or stage.after == stage.resid
    assert [stage.where for stage in stages(trace, "encoder", 0, pre=order == "pre")] == [
        "encoder.0.attention",
        "encoder.0.ffn",
    ]


def test_the_most_active_units(reverse: ModelTranslator) -> None:
    trace = reverse.trace(SOURCE, TARGET)
    hidden = trace["encoder.0.ffn.ffn_hidden"][1]
    units = most_active(trace, "encoder", 0, 1, 12)
    assert [unit.value for unit in units] == sorted(hidden.tolist(), reverse=True)[:12]
    assert all(hidden[unit.unit] == unit.value for unit in units)


def test_the_cosine_of_nothing() -> None:
    assert cosine(np.zeros(3), np.ones(3)) == 0
