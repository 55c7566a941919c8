"""The explorer's requests to a model; the server's tests make most of them over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.errors import ConfigError
from regard.inspect.answers import Limits
from regard.inspect.explorer import Explorer, Question
from regard.inspect.interventions import parse_interventions
from regard.inspect.patching import intervened
from regard.inspect.wire import unpack
from regard.pipelines.model_translator import ModelTranslator
from regard.tokenizers.sentencepiece import SentencePieceModel
from regard.tokenizers.special_ids import EOS

TEXT = "apple baby bird"


@pytest.fixture(scope="module")
def explorer(reverse: ModelTranslator) -> Explorer:
    return Explorer(reverse)


def test_a_passage_has_a_digest_of_its_contents(explorer: Explorer) -> None:
    plain = explorer.passage(Question(TEXT, {}), None)
    assert plain.tgt_ids == tuple(explorer.translator.tokenizer.encode_tgt(["bird baby apple"])[0])
    given = explorer.passage(Question(TEXT, {"beam": 1}), [*plain.tgt_ids, EOS])
    assert given == plain
    off = parse_interventions([{"kind": "scale"}])
    changed = explorer.passage(Question(TEXT, {}, interventions=off), plain.tgt_ids)
    names = {
        plain.digest("0"),
        plain.digest("1"),
        changed.digest("0"),
        explorer.passage(Question("apple", {}), []).digest("0"),
    }
    assert len(names) == 4
    assert given.digest("0") == plain.digest("0")


def test_the_limits(reverse: ModelTranslator) -> None:
    small = Explorer(reverse, Limits(characters=25, pieces=4, beam=4, n_best=2))
    assert small.translate(Question(TEXT, {})).alternatives[0].text == "bird baby apple"
    with pytest.raises(ConfigError, match="26 characters; the explorer accepts up to 25"):
        small.translate(Question("a" * 26, {}))
    with pytest.raises(ConfigError, match="5 pieces; the explorer accepts up to 4"):
        small.translate(Question("apple baby bird cat blue", {}))
    with pytest.raises(ConfigError, match="beam = 5 is not possible here; it may be from 1 to 4"):
        small.translate(Question(TEXT, {"beam": 5}))
    with pytest.raises(ConfigError, match="n_best = 3 is not possible here"):
        small.translate(Question(TEXT, {}), 3)


def test_no_option_makes_a_search_endless(newline_model: Path) -> None:
    """A model that never generates EOS, and options without a practical limit."""
    explorer = Explorer(ModelTranslator(newline_model), Limits(pieces=8))
    options = {"max_length_ratio": 100.0, "max_length_extra": 10**6, "beam": 1}
    [found] = explorer.translate(Question("apple baby", options)).alternatives
    assert not found.finished
    assert len(found.tokens) == 8
    passage = explorer.passage(Question("apple baby", options), None)
    assert len(passage.tgt_ids) == 8
    trace = explorer.trace(passage)
    assert trace.trace["logits"].shape[0] == 9
    prefix = tuple(token.id for token in found.tokens)
    [forced] = explorer.translate(Question("apple baby", options, prefix[:7])).alternatives
    assert len(forced.tokens) == 8
    with pytest.raises(ConfigError, match="the prefix has 8 pieces; the most is 7"):
        explorer.translate(Question("apple baby", options, prefix))


def test_a_beam_finds_no_more_than_its_width(explorer: Explorer) -> None:
    found = explorer.translate(Question(TEXT, {"beam": 2}), 5)
    assert len(found.alternatives) == 2


def test_a_recurrent_model_with_attention(recurrent: ModelTranslator) -> None:
    explorer = Explorer(recurrent)
    passage = explorer.passage(Question(TEXT, {}), None)
    trace = explorer.trace(passage)
    header, maps = unpack(trace.overview("name"))
    length = len(header["tgt"])
    assert {path: value.shape for path, value in maps.items()} == {"decoder.0.cross.weights": (1, length, 4)}
    assert header["taps"]["decoder.0.cross.weights"] == [1, length, 4]
    found = trace.next(0, 3)
    assert (len(found.top), found.lens) == (3, ())
    with pytest.raises(ConfigError, match="this model has no residual stream"):
        trace.block("decoder", 0, 0)
    assert [head.where for head in trace.summary().heads] == ["decoder.0.cross"]
    model = explorer.describe()
    assert (model.config["family"], model.config["n_heads"], model.config["norm_order"]) == ("recurrent", 0, None)
    assert (model.embedding_scale, model.score_scale, model.head_size) == (8.0, None, None)


def test_a_model_of_bf16_can_be_looked_at(reverse_model: Path) -> None:
    explorer = Explorer(ModelTranslator(reverse_model, "bfloat16"))
    passage = explorer.passage(Question(TEXT, {}), None)
    trace = explorer.trace(passage)
    assert trace.next(0, 3).lens[0].chosen_rank == 1
    _, arrays = unpack(explorer.parameter("output.weight", "0,1"))
    assert arrays["output.weight"].dtype == np.float32


def test_a_large_parameter_is_sent_in_rows(explorer: Explorer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.inspect.parameter.MAX_NUMBERS", 1000)
    with pytest.raises(ConfigError, match="too many to send; request some of its rows"):
        explorer.parameter("output.weight")
    _, arrays = unpack(explorer.parameter("output.weight", "5"))
    assert arrays["output.weight"].shape == (1, 64)


def test_a_tokenizer_has_a_digest_of_its_contents(explorer: Explorer, random_model: Any) -> None:
    same, cased, other = (Explorer(ModelTranslator(random_model(name))) for name in ("same", "cased", "other"))
    cased.translator.tokenizer.lowercase = True
    other.translator.tokenizer.tgt = SentencePieceModel(other.tgt.proto)  # two, though alike, are not one for both
    assert explorer.describe().tokenizer_hash == same.describe().tokenizer_hash
    assert len({one.describe().tokenizer_hash for one in (same, cased, other)}) == 3


def test_the_name_is_that_of_the_run_or_the_folder(explorer: Explorer, random_model: Any) -> None:
    assert explorer.describe().name == explorer.translator.folder.parent.name
    assert Explorer(ModelTranslator(random_model("first"))).describe().name == "first"


@pytest.mark.parametrize("kind", ["scale", "positions"])
def test_interventions_do_not_use_the_engine(reverse: ModelTranslator, kind: str) -> None:
    plain = reverse.translate([TEXT])[0].alternatives[0]
    with intervened(reverse.model, parse_interventions([{"kind": kind}])):
        assert reverse.searcher is reverse.model
        changed = reverse.translate([TEXT])[0].alternatives[0]
    assert changed.log_prob != pytest.approx(plain.log_prob, abs=1e-4)
    assert reverse.translate([TEXT])[0].alternatives[0] == plain
    asked = Question(TEXT, {}, interventions=parse_interventions([{"kind": kind}]))
    [found] = Explorer(reverse).translate(asked).alternatives
    assert found.log_prob == pytest.approx(changed.log_prob)
