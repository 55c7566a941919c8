from __future__ import annotations

import numpy as np
import pytest
import torch

from regard.core.taps import tap_paths
from regard.decode.search import search
from regard.errors import ConfigError
from regard.pipelines.model_translator import ModelTranslator
from regard.tokenizers.special_ids import BOS, EOS

SOURCE, TARGET = "apple baby bird", "bird baby apple"


def test_probabilities_are_those_of_the_search(reverse: ModelTranslator, reverse_test: list[tuple[str, str]]) -> None:
    for source, _ in reverse_test[:8]:
        [found] = reverse.translate([source])
        best = found.alternatives[0]
        trace = reverse.trace(source)
        assert trace.tgt_tokens == (*best.tokens, "</s>")
        assert np.log(trace.probabilities) == pytest.approx(best.token_log_probs, abs=1e-4)


def test_every_tap_is_recorded(reverse: ModelTranslator) -> None:
    trace = reverse.trace(SOURCE)
    assert set(trace.values) == set(tap_paths(reverse.model))
    assert trace.kernel == "reference"
    assert trace.src_tokens == ("▁apple", "▁baby", "▁bird", "</s>")
    assert trace["src_embedded"].shape == (4, 64)
    assert trace["decoder.0.cross.weights"].shape == (4, 4, 4)
    assert trace["logits"].shape == (4, reverse.tokenizer.tgt.size)
    assert all(np.isfinite(value).all() for path, value in trace.values.items() if not path.endswith("scores"))


def test_attention_rows_sum_to_one_and_look_at_no_future(reverse: ModelTranslator) -> None:
    trace = reverse.trace(SOURCE, TARGET)
    weights = {path: value for path, value in trace.values.items() if path.endswith(".weights")}
    assert len(weights) == 3
    for value in weights.values():
        assert value.min() >= 0
        assert value.sum(axis=-1) == pytest.approx(1, abs=1e-5)
    own = weights["decoder.0.attention.weights"]
    assert np.triu(own, 1).max() == 0


def test_the_logits_are_the_model_s(reverse: ModelTranslator) -> None:
    trace = reverse.trace(SOURCE, TARGET)
    src, tgt = reverse.tokenizer.encode_src([SOURCE])[0], reverse.tokenizer.encode_tgt([TARGET])[0]
    with torch.inference_mode():
        logits = reverse.model(torch.tensor([[*src, EOS]]), torch.tensor([[BOS, *tgt]]))[0]
    assert trace["logits"] == pytest.approx(logits.numpy(), abs=1e-4)
    wanted = logits.softmax(1)[range(4), [*tgt, EOS]]
    assert trace.probabilities == pytest.approx(wanted.numpy(), abs=1e-5)


def test_recording_changes_nothing(reverse: ModelTranslator) -> None:
    before = reverse.score([SOURCE], [TARGET])
    reverse.trace(SOURCE)
    assert reverse.score([SOURCE], [TARGET]) == before


def test_only_the_taps_asked_for(reverse: ModelTranslator) -> None:
    trace = reverse.trace(SOURCE, taps=("encoder.*.resid", "logits"))
    assert set(trace.values) == {"encoder.0.around_attention.resid", "encoder.0.around_ffn.resid", "logits"}
    assert trace.kernel == "as configured"
    with pytest.raises(ConfigError, match=r"decoder\.\*\.cross\.weights"):
        trace.alignment()
    with pytest.raises(KeyError, match="no tap matches 'attention'"):
        reverse.trace(SOURCE, taps=("attention",))


def test_cross_attention_by_layer_and_head(reverse: ModelTranslator) -> None:
    trace = reverse.trace(SOURCE)
    weights_HLM = trace["decoder.0.cross.weights"]
    assert trace.cross_attention(0, 2) == pytest.approx(weights_HLM[2])
    assert trace.cross_attention(-1, -1) == pytest.approx(weights_HLM[-1])
    assert trace.cross_attention(head=1) == pytest.approx(weights_HLM[1])
    assert trace.cross_attention() == pytest.approx(weights_HLM.mean(axis=0))
    with pytest.raises(IndexError):
        trace.cross_attention(layer=1)


def test_the_alignment_of_the_reverse_task_is_reversed(
    reverse: ModelTranslator, reverse_test: list[tuple[str, str]]
) -> None:
    right = total = 0
    for source, target in reverse_test:
        links = reverse.trace(source, target, ("decoder.*.cross.weights",)).alignment()
        last = len(source.split()) - 1
        right += sum(i + j == last for i, j in links)
        total += len(links)
    assert right >= 0.8 * total


def test_a_trace_of_nothing_is_of_nothing(reverse: ModelTranslator) -> None:
    trace = reverse.trace("  ")
    assert (trace.src_tokens, trace.tgt_tokens) == (("</s>",), ("</s>",))
    assert trace.alignment() == []


def test_options_go_to_the_search(reverse: ModelTranslator) -> None:
    how = reverse.decode_config({"method": "sample", "temperature": 4.0, "seed": 3})
    ids = search(reverse.model, reverse.tokenizer.encode_src([SOURCE]), how, reverse.device)[0][0].ids
    trace = reverse.trace(SOURCE, method="sample", temperature=4.0, seed=3)
    assert trace.tgt_tokens == (*reverse.tokenizer.tgt.pieces(ids), "</s>")
    assert trace.tgt_tokens != reverse.trace(SOURCE).tgt_tokens
    with pytest.raises(ConfigError, match="did you mean 'beam'"):
        reverse.trace(SOURCE, bean=2)


def test_it_can_be_printed(reverse: ModelTranslator) -> None:
    assert len(repr(reverse.trace(SOURCE))) < 500


def test_a_recurrent_decoder_s_attention_is_whole(recurrent: ModelTranslator) -> None:
    """It attends once per token; the trace has all rows together, with a single head."""
    trace = recurrent.trace(SOURCE)
    assert set(trace.values) == set(tap_paths(recurrent.model))
    assert trace.tgt_tokens == ("▁bird", "▁baby", "▁apple", "</s>")
    assert trace["decoder.0.cross.weights"].shape == trace["decoder.0.cross.scores"].shape == (1, 4, 4)
    assert trace["decoder.0.cross.weights"].sum(axis=-1) == pytest.approx(1, abs=1e-5)
    assert trace["decoder.0.cross.attn_out"].shape == (4, 128)
    assert trace["encoder.0.states"].shape == trace["memory"].shape == (4, 128)
    assert trace["summary"].shape == (128,)
    assert trace.cross_attention(0, 0) == pytest.approx(trace["decoder.0.cross.weights"][0])
    best = recurrent.translate([SOURCE])[0].alternatives[0]
    assert np.log(trace.probabilities) == pytest.approx(best.token_log_probs, abs=1e-4)


def test_a_recurrent_decoder_s_alignment_of_the_reverse_task_is_reversed(
    recurrent: ModelTranslator, reverse_test: list[tuple[str, str]]
) -> None:
    right = total = 0
    for source, target in reverse_test:
        links = recurrent.trace(source, target, ("decoder.*.cross.weights",)).alignment()
        right += sum(i + j == len(source.split()) - 1 for i, j in links)
        total += len(links)
    assert right >= 0.8 * total
