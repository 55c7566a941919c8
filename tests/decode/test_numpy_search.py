"""The Transformer in numpy beside the model in PyTorch: the same log-probabilities and translations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.config import DecodeConfig, TransformerConfig
from regard.decode.hypotheses import Hypothesis
from regard.decode.numpy_search import numpy_scores, numpy_search, repeating_tokens
from regard.decode.numpy_transformer import NumpyTransformer
from regard.decode.scoring import score_translations
from regard.decode.search import pad_sources, search
from regard.decode.shortlist import Shortlist
from regard.errors import ConfigError, RegardError
from regard.models.transformer import Transformer
from regard.tokenizers.special_ids import BOS, EOS

VOCABULARY = 60
CPU = torch.device("cpu")
SHAPES: list[dict[str, object]] = [
    {},
    {"norm_order": "pre", "position": "learned", "ffn": "gelu", "tie_embeddings": "output", "max_positions": 40},
    {"norm": "rmsnorm", "position": "none", "ffn": "swiglu", "tie_embeddings": "none", "output_bias": True},
    {"position": "alibi", "ffn": "geglu"},
    {"position": "relative", "ffn": "gelu_tanh", "norm_order": "pre"},
    {"position": "rotary", "norm_order": "pre", "norm": "rmsnorm", "ffn": "swish", "n_encoder_layers": 1},
]
SOURCES = st.lists(st.lists(st.integers(EOS + 1, VOCABULARY - 1), max_size=9), min_size=1, max_size=4)


def make_models(**shape: object) -> tuple[Transformer, NumpyTransformer]:
    torch.manual_seed(1)
    sizes: dict[str, Any] = {"d_model": 32, "n_heads": 4, "d_ff": 48, "n_encoder_layers": 2, "n_decoder_layers": 2}
    vocabulary = {"src_vocab_size": VOCABULARY, "tgt_vocab_size": VOCABULARY}
    model = Transformer(TransformerConfig(**{**sizes, **vocabulary, **shape})).eval().requires_grad_(False)
    for parameter in model.parameters():
        if parameter.dim() == 1:  # biases that are not zero, gains that are not one
            parameter.add_(torch.randn_like(parameter) * 0.2)
    weights = {name: parameter.numpy() for name, parameter in model.named_parameters()}
    return model, NumpyTransformer(model.config, weights)


def same(found: list[list[Hypothesis]], expected: list[list[Hypothesis]]) -> None:
    assert [[one.ids for one in best] for best in found] == [[one.ids for one in best] for best in expected]
    assert [[one.finished for one in best] for best in found] == [[one.finished for one in best] for best in expected]
    for best, others in zip(found, expected, strict=True):
        for one, other in zip(best, others, strict=True):
            np.testing.assert_allclose(one.token_log_probs, other.token_log_probs, atol=2e-5)
            assert one.score == pytest.approx(other.score, abs=1e-5)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@given(sources=SOURCES, beam=st.integers(1, 5), ngram=st.sampled_from([0, 0, 2, 3]), data=st.data())
@settings(max_examples=12)
def test_it_finds_what_the_model_finds(
    shape: dict[str, object], sources: list[list[int]], beam: int, ngram: int, data: st.DataObject
) -> None:
    model, plain = make_models(**shape)
    n_best = data.draw(st.integers(1, beam))
    config = DecodeConfig(beam=beam, no_repeat_ngram=ngram, max_length_ratio=1.0, max_length_extra=4)
    prefixes = data.draw(st.none() | st.just([[7, 8][: at % 3] for at in range(len(sources))]))
    expected = search(model, sources, config, CPU, n_best, prefixes)
    same(numpy_search(plain, sources, config, n_best, prefixes), expected)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_scores_are_the_models(shape: dict[str, object]) -> None:
    model, plain = make_models(**shape)
    sources, translations = [[5, 6, 7, 8], [9], []], [[10, 11], [], [12, 13, 14, 15, 16]]
    expected = score_translations(model, pad_sources(sources, CPU), translations)
    same([numpy_scores(plain, sources, translations, DecodeConfig())], [expected])


def test_tokens_fed_one_by_one_or_at_once_give_the_same_logits() -> None:
    _, plain = make_models(position="rotary")
    tokens = np.array([[BOS, 5, 6, 7, 8]])
    whole, state = plain.decode(tokens, plain.encode([9, 10])), plain.encode([9, 10])
    steps = [plain.decode(tokens[:, at : at + 1], state) for at in range(5)]
    np.testing.assert_allclose(np.concatenate(steps, axis=1), whole, atol=1e-5)


def test_a_shortlist_restricts_it() -> None:
    model, plain = make_models()
    always, starts = np.array([0, 1, 2, 3]), np.cumsum([0] + [2] * VOCABULARY)
    pieces = np.array([(5 + at, 5 + (7 * at) % 50) for at in range(VOCABULARY)], np.int32).clip(max=VOCABULARY - 1)
    shortlist = Shortlist(always, starts, pieces.reshape(-1))
    config, sources = DecodeConfig(beam=3, max_length_extra=5), [[20, 21]]
    expected = search(model, sources, config, CPU, shortlist=shortlist)
    same(numpy_search(plain, sources, config, shortlist=shortlist), expected)


def test_nan_is_refused() -> None:
    _, plain = make_models()
    plain.weights["tgt_embedding.weight"] = np.full_like(plain.weights["tgt_embedding.weight"], np.nan)
    with pytest.raises(RegardError, match="produced NaN or infinity at target token 1"):
        numpy_search(plain, [[5]], DecodeConfig())


def test_what_it_cannot_is_refused() -> None:
    _, plain = make_models()
    with pytest.raises(ConfigError, match="only beam search"):
        numpy_search(plain, [[5]], DecodeConfig(method="sample"))


def test_repeating_tokens() -> None:
    assert repeating_tokens([1, 2, 3, 1, 2], 3) == [3]
    assert repeating_tokens([1, 2], 3) == []
    assert repeating_tokens([4, 5], 1) == [4, 5]


def test_damaged_weights_have_no_scores() -> None:
    _, plain = make_models()
    plain.weights["tgt_embedding.weight"] = np.full_like(plain.weights["tgt_embedding.weight"], np.nan)
    with pytest.raises(RegardError, match="produced NaN or infinity at target token 1"):
        numpy_scores(plain, [[5]], [[6]], DecodeConfig())


def test_experts_are_not_computed() -> None:
    with pytest.raises(ConfigError, match="mixtures of experts are not computed in numpy"):
        NumpyTransformer(TransformerConfig(ffn="moe"), {})
