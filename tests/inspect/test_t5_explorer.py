"""Inspection of T5: traces, blocks, alignments, interventions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from regard.inspect.explorer import Explorer, Question
from regard.pipelines.model_translator import ModelTranslator

T5 = {"family": "t5", "n_heads": 2, "head_size": 6, "d_ff": 20, "n_buckets": 4, "max_distance": 8}
TEXT = "apple river stone"


@pytest.fixture
def way(random_model: Any) -> ModelTranslator:
    return ModelTranslator(random_model("t5", **T5))


def test_a_trace_has_every_number(way: ModelTranslator) -> None:
    trace = way.trace(TEXT, "stone river")
    n_source, n_target = len(trace.src_tokens), len(trace.tgt_tokens)
    assert trace["decoder.1.cross.weights"].shape == (2, n_target, n_source)
    np.testing.assert_allclose(trace["encoder.0.attention.weights"].sum(-1), 1.0, atol=1e-6)
    assert np.isfinite(trace["logits"]).all()
    assert way.align(TEXT, "stone river")


def test_its_blocks_are_those_of_a_pre_norm_stack(way: ModelTranslator) -> None:
    explorer = Explorer(way)
    assert explorer.describe().config["position"] == "relative"
    block = explorer.trace(explorer.passage(Question(TEXT, {}), None)).block("decoder", 1, 0)
    assert len(block.stages) > 3
    assert block.units


def test_its_description_has_its_scales(way: ModelTranslator) -> None:
    model = Explorer(way).describe()
    assert (model.embedding_scale, model.score_scale, model.head_size) == (1.0, 1.0, 6)


def test_in_bf16_it_says_about_the_same(way: ModelTranslator) -> None:
    exact = way.score([TEXT], ["stone river"])[0].log_prob
    fast = ModelTranslator(way.folder, "bfloat16")
    assert fast.translate([TEXT], beam=2)[0].alternatives[0].log_prob < 0
    assert exact == fast.score([TEXT], ["stone river"])[0].log_prob  # scores are exact whatever the search
