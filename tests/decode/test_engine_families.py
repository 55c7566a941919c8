"""T5, GPT and BERT in the engine against the models in PyTorch, which tests/interop compares with transformers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.config import BertConfig, FamilyConfig, GptConfig, MixtureConfig, T5Config
from regard.decode.beam import beam_search
from regard.decode.engine import NUMBER_FORMATS, Engine, NumberFormat
from regard.decode.engine_texts import EngineTexts, encode_texts
from regard.decode.generate import SamplingOptions, generate
from regard.decode.model_engine import SteppedEngine, build_engine
from regard.decode.model_texts import ModelTexts
from regard.decode.scoring import score_translations
from regard.decode.search import pad_sources
from regard.errors import RegardError
from regard.models.bert import Bert
from regard.models.gpt import Gpt
from regard.models.t5 import T5
from regard.tokenizers.characters import CharacterTokenizer
from regard.tokenizers.special_ids import BOS, EOS

LETTERS = CharacterTokenizer("abcdefghijklmnopqrstuvwxyz")
SIZE = LETTERS.size
CPU = torch.device("cpu")
TOLERANCE: dict[NumberFormat, float] = {"float32": 2e-5, "bfloat16": 0.12, "int8": 0.2}
MIXTURE = MixtureConfig(4, 2, 1, 12, "gelu", 2, 1, "softmax", True, 1.5, "bias")
T5S: list[dict[str, Any]] = [
    {"head_size": 20},
    {"ffn": "geglu", "tie_embeddings": "inputs", "scale_output": False, "output_bias": True},
    {"ffn": "moe", "moe": MIXTURE, "n_buckets": 8, "max_distance": 9},
]
STACKS: list[dict[str, Any]] = [{}, {"ffn": "swiglu", "norm_eps": 1e-3}, {"ffn": "moe", "moe": MIXTURE}]


def build(kind: Any, config: FamilyConfig, seed: int = 1) -> Any:
    torch.manual_seed(seed)
    model = kind(config).eval().requires_grad_(False)
    for parameter in model.parameters():
        parameter.add_(torch.randn_like(parameter) * (0.2 if parameter.dim() == 1 else 0.05))
    return model


def t5(**changes: Any) -> T5:
    sizes = {"d_model": 48, "n_heads": 3, "head_size": 16, "d_ff": 40, "n_encoder_layers": 2, "n_decoder_layers": 2}
    model: T5 = build(T5, T5Config(**{**sizes, **changes}, src_vocab_size=SIZE, tgt_vocab_size=SIZE))
    return model


def gpt(seed: int = 1, **changes: Any) -> Gpt:
    sizes = {"d_model": 48, "n_heads": 3, "d_ff": 40, "n_layers": 2, "max_positions": 24, "vocab_size": SIZE + 3}
    model: Gpt = build(Gpt, GptConfig(**{**sizes, **changes}), seed)
    return model


def engine_of(model: Any, form: NumberFormat = "float32") -> Engine:
    engine = build_engine(model, form)
    if engine is None:
        pytest.skip("there is no C++ compiler here, so there is no engine")
    return engine


@pytest.mark.parametrize("form", NUMBER_FORMATS)
@pytest.mark.parametrize("changes", T5S, ids=str)
def test_t5_takes_the_steps_of_the_model(changes: dict[str, Any], form: NumberFormat) -> None:
    model = t5(**changes)
    engine = SteppedEngine(engine_of(model, form))
    src_BM = pad_sources([[5, 6, 7, 8], [9, 10, 11, 12, 13, 14], [20], []], CPU)
    with torch.inference_mode():
        plain, fast = model.begin(src_BM, 20), engine.begin(src_BM, 20)
        tokens_R = torch.full((4,), BOS)
        scale = 1.0
        wide = 3 if changes.get("ffn") == "moe" else 1  # a small difference may route a token to another expert
        for time in range(19):
            expected, found = model.step(tokens_R, plain), engine.step(tokens_R, fast)
            scale = max(scale, float(expected.abs().max()))
            torch.testing.assert_close(found, expected, atol=TOLERANCE[form] * scale * wide, rtol=0)
            tokens_R = expected.argmax(dim=1).clamp(min=EOS + 1)
            if time == 3:
                rows_R = torch.tensor([3, 0, 1, 1, 2])
                plain.reorder(rows_R)
                fast.reorder(rows_R)
                tokens_R = tokens_R[rows_R]


@pytest.mark.parametrize("changes", T5S, ids=str)
def test_t5_finds_and_scores_what_the_model_does(changes: dict[str, Any]) -> None:
    model = t5(**changes)
    engine, sources = engine_of(model), [[5, 6, 7, 8], [9, 10], [20]]
    src_BM, ended = pad_sources(sources, CPU), [[*ids, EOS] for ids in sources]
    how: dict[str, Any] = {"beam": 3, "length_penalty": 0.6, "max_lengths": [9, 4, 12]}
    for expected, found in zip(beam_search(model, src_BM, **how), engine.beam_search(ended, **how), strict=True):
        assert [one.ids for one in expected] == [one.ids for one in found]
        assert [one.score for one in found] == pytest.approx([one.score for one in expected], abs=1e-4)
    targets = [[7, 8], [], [9, 10, 11]]
    for a, b in zip(score_translations(model, src_BM, targets), engine.score(ended, targets), strict=True):
        assert b.hypothesis.token_log_probs == pytest.approx(a.token_log_probs, abs=1e-4)


def written(model: Any, prompt: list[int], how: SamplingOptions, **where: Any) -> tuple[list[Any], np.ndarray]:
    steps = list(generate(model, LETTERS, prompt, how, **{"max_tokens": 40, "seeds": [1], **where}))
    tokens, log_probs = (np.stack(rows, axis=1) for rows in zip(*steps, strict=True))
    return tokens.tolist(), log_probs


@pytest.mark.parametrize("changes", STACKS, ids=str)
def test_gpt_writes_what_the_model_writes(changes: dict[str, Any]) -> None:
    """Greedy, past the end of the context, where its recent half is read again."""
    model = gpt(**changes)
    engine = EngineTexts(engine_of(model))
    for prompt, ngram in (([BOS], 0), ([BOS, 6, 7, 8], 2), ([BOS, *range(6, 30), 7, 8], 0)):
        options = SamplingOptions(top_k=1, no_repeat_ngram=ngram)
        expected, wanted = written(ModelTexts(model), prompt, options, max_tokens=28)
        found, log_probs = written(engine, prompt, options, max_tokens=28)
        assert found == expected
        np.testing.assert_allclose(log_probs, wanted, atol=1e-4)


@given(
    seed=st.integers(0, 20),
    seeds=st.lists(st.integers(0, 2**31), min_size=1, max_size=5),
    how=st.builds(
        SamplingOptions,
        temperature=st.floats(0.3, 2),
        top_k=st.sampled_from([0, 1, 4]),
        top_p=st.sampled_from([0.5, 0.9, 1.0]),
        no_repeat_ngram=st.integers(0, 3),
    ),
)
@settings(max_examples=15, deadline=None)
def test_gpt_samples_what_the_model_samples(seed: int, seeds: list[int], how: SamplingOptions) -> None:
    model = gpt(seed)
    where = {"seeds": seeds, "max_tokens": 12}
    expected, wanted = written(ModelTexts(model), [BOS, 6], how, **where)
    found, log_probs = written(EngineTexts(engine_of(model)), [BOS, 6], how, **where)
    same = [a == b for a, b in zip(expected, found, strict=True)]
    assert sum(not equal for equal in same) <= 1, "a random number may be on the border of two tokens"
    for row in np.flatnonzero(same):
        length = len([token for token in expected[row] if token >= 0])
        np.testing.assert_allclose(log_probs[row, :length], wanted[row, :length], atol=1e-4)


@pytest.mark.parametrize("form", NUMBER_FORMATS)
@pytest.mark.parametrize("changes", STACKS, ids=str)
def test_gpt_scores_a_text_as_the_model_does(changes: dict[str, Any], form: NumberFormat) -> None:
    model, ids = gpt(**changes), [BOS, 6, 7, 8, 9, 9, 9, 10, 20]
    found, expected = EngineTexts(engine_of(model, form)).score(ids), ModelTexts(model).score(ids)
    np.testing.assert_allclose(found, expected, atol=1e-4 if form == "float32" else 3 * TOLERANCE[form])
    assert EngineTexts(engine_of(model)).score([BOS]).tolist() == []


def test_texts_do_not_depend_on_each_other() -> None:
    model = EngineTexts(engine_of(gpt()))
    together, log_probs = written(model, [BOS, 6], SamplingOptions(), seeds=[1, 2, 3, 4])
    for row, seed in enumerate([1, 2, 3, 4]):
        [alone], own = written(model, [BOS, 6], SamplingOptions(), seeds=[seed])
        assert alone == together[row][: len(alone)]
        assert np.array_equal(own[0], log_probs[row][: len(alone)]), "bit for bit"


def test_a_broken_gpt_says_so() -> None:
    model = gpt()
    model.last_norm.weight.fill_(torch.nan)
    with pytest.raises(RegardError, match="NaN or infinity at token 2"):
        written(EngineTexts(engine_of(model)), [BOS], SamplingOptions())
    with pytest.raises(RegardError, match="NaN or infinity at token 2"):
        EngineTexts(engine_of(model)).score([BOS, 6])


@pytest.mark.parametrize("form", NUMBER_FORMATS)
@pytest.mark.parametrize("changes", STACKS, ids=str)
def test_bert_encodes_as_the_model_does(changes: dict[str, Any], form: NumberFormat) -> None:
    sizes = {"d_model": 48, "n_heads": 3, "d_ff": 40, "n_layers": 2, "max_positions": 150, "vocab_size": SIZE}
    model: Bert = build(Bert, BertConfig(**{**sizes, **changes}))
    texts = [[BOS, *(5 + i % 20 for i in range(length)), EOS] for length in (0, 1, 7, 40, 148)]
    found = encode_texts(engine_of(model, form), texts, workers=2)
    for ids, hidden_LD in zip(texts, found, strict=True):
        expected = model(torch.tensor([ids]))[0].numpy()
        gap = np.abs(hidden_LD - expected)
        if form == "float32":
            assert gap.max() < 5e-5
        else:  # a mixture may route a token to another expert
            assert gap.mean() < TOLERANCE[form] / 4
        [alone] = encode_texts(engine_of(model, form), [ids])
        assert np.array_equal(alone, hidden_LD), "bit for bit, whatever the batch"
    assert encode_texts(engine_of(model), []) == []
