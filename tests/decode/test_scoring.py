from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.config import TransformerConfig
from regard.decode.beam import beam_search
from regard.decode.scoring import score_translations
from regard.errors import ConfigError, RegardError
from regard.models.transformer import Transformer
from regard.tokenizers.special_ids import BOS, EOS, PAD

SOURCES = st.lists(st.lists(st.integers(EOS + 1, 11), max_size=6), min_size=1, max_size=6)


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 10_000), sources=SOURCES, alpha=st.sampled_from([0.0, 0.6, 1.5]))
def test_scores_equal_those_of_the_search_that_found_it(
    bench: Any, seed: int, sources: list[list[int]], alpha: float
) -> None:
    model, src_BM = bench.model(seed, 12), bench.pad(sources)
    found = beam_search(model, src_BM, beam=3, length_penalty=alpha, max_lengths=[12] * len(sources), no_repeat_ngram=2)
    given_back = score_translations(model, src_BM, [best.ids for [best] in found], length_penalty=alpha)
    for [best], scored in zip(found, given_back, strict=True):
        count = len(best.token_log_probs)  # one less than the scored ones have, if it was cut
        assert scored.ids == best.ids
        assert scored.token_log_probs[:count] == pytest.approx(best.token_log_probs, abs=1e-9)
        if best.finished:
            assert scored.log_prob == pytest.approx(best.log_prob, abs=1e-9)
            assert scored.score == pytest.approx(best.score, abs=1e-9)


def test_the_empty_translation_has_the_probability_of_its_end(bench: Any) -> None:
    model, src_BM = bench.model(1, 12), bench.pad([[4, 5]])
    [scored] = score_translations(model, src_BM, [[]])
    expected = model(src_BM, torch.tensor([[BOS]]))[0, 0].log_softmax(0)[EOS].item()
    assert scored.token_log_probs == pytest.approx([expected], abs=1e-12)
    assert scored.score == scored.log_prob  # the penalty of a single token is 1


@pytest.mark.parametrize(
    ("translations", "words"), [([[4], [4]], "1 sources but 2"), ([[4, PAD]], "padding"), ([[BOS, 4]], "begin")]
)
def test_invalid_translations_are_refused(bench: Any, translations: list[list[int]], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        score_translations(bench.model(1, 12), bench.pad([[4]]), translations)


def test_nothing_to_score(bench: Any) -> None:
    assert score_translations(bench.model(1, 12), torch.empty(0, 3, dtype=torch.int64), []) == []


def test_damaged_weights_are_an_error() -> None:
    config = TransformerConfig(
        d_model=8, n_heads=2, d_ff=8, n_encoder_layers=1, n_decoder_layers=1, src_vocab_size=12, tgt_vocab_size=12
    )
    model = Transformer(config).eval()
    with torch.no_grad():
        model.output.weight[-1] = torch.nan
    with pytest.raises(RegardError, match="NaN or infinity at target token 1"):
        score_translations(model, torch.tensor([[4, 5, EOS]]), [[6, 7]])
