"""The toy tasks of long context: what is asked can be answered, and the same seed gives the same examples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.config import CorpusConfig, DataConfig, GptConfig, RunConfig
from regard.config.effects import check_effects
from regard.data.corpus import read_pairs
from regard.data.synthetic import FIRST, NOT_ASKED, draw, duplicate, prepare_synthetic, recall
from regard.errors import ConfigError


@given(half=st.integers(2, 20), symbols=st.integers(2, 50), seed=st.integers(0, 99))
@settings(max_examples=30, deadline=None)
def test_the_second_word_is_the_first(half: int, symbols: int, seed: int) -> None:
    ids, targets = duplicate(np.random.default_rng(seed), 3, 2 * half, symbols)
    assert (ids[:, :half] == ids[:, half:]).all()
    assert (ids[:, 0] == FIRST).all()
    assert ids.min() >= FIRST
    assert ids.max() < FIRST + symbols
    asked = targets != NOT_ASKED
    assert asked.sum() == 3 * (half - 1)
    assert (targets[:, :-1][asked[:, :-1]] == ids[:, 1:][asked[:, :-1]]).all()  # the next token


@given(pairs=st.integers(1, 6), more=st.integers(0, 20), seed=st.integers(0, 99))
@settings(max_examples=30, deadline=None)
def test_every_key_is_asked_for_once_and_its_value_is_before(pairs: int, more: int, seed: int) -> None:
    length, symbols = 3 * pairs + more, 40
    ids, targets = recall(np.random.default_rng(seed), 4, length, pairs, symbols)
    assert ids.shape == (4, length)
    for row, wanted in zip(ids, targets, strict=True):
        values = dict(zip(row[0 : 2 * pairs : 2].tolist(), row[1 : 2 * pairs : 2].tolist(), strict=True))
        places = (wanted != NOT_ASKED).nonzero()[0]
        assert sorted(row[places]) == sorted(values)
        assert places.min() >= 2 * pairs
        assert [values[key] for key in row[places].tolist()] == wanted[places].tolist()


def test_a_corpus_of_symbols() -> None:
    corpus = CorpusConfig(toy="recall", length=20, pairs=2, symbols=30)
    prepared = prepare_synthetic(DataConfig(train=(corpus,)))
    assert prepared.tokenizer.size == 30 + FIRST
    first, again = (draw(corpus, np.random.default_rng(3), 2) for _ in range(2))
    assert (first.ids_BL == again.ids_BL).all()
    text = prepared.tokenizer.decode(first.ids_BL[0].tolist())
    assert prepared.tokenizer.encode([text])[0] == first.ids_BL[0].tolist()


@pytest.mark.parametrize(
    ("corpora", "reason"),
    [
        ([{"toy": "recall", "length": 8, "pairs": 4}], "no room for 4 pairs and questions"),
        ([{"toy": "duplicate", "length": 5}], "needs an even length"),
        ([{"toy": "duplicate"}, {"text": "a.txt"}], "cannot be mixed with other corpora"),
        ([{"toy": "duplicate"}, {"toy": "recall", "symbols": 9}], "need the same number of symbols"),
    ],
)
def test_what_cannot_be_drawn_is_refused(corpora: list[dict[str, Any]], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        prepare_synthetic(DataConfig(train=tuple(CorpusConfig(**corpus) for corpus in corpora)))


def test_it_is_for_language_models_and_its_settings_for_it() -> None:
    with pytest.raises(ConfigError, match="is a task of language models"):
        next(read_pairs(CorpusConfig(toy="recall")))
    for changes in ({"length": 9}, {"symbols": 9}, {"pairs": 9}):
        run = RunConfig(DataConfig(train=(CorpusConfig(toy="copy", **changes),)))
        with pytest.raises(ConfigError, match="has no effect: it is for toy = "):
            check_effects(run)
    run = RunConfig(DataConfig(train=(CorpusConfig(toy="duplicate"),), lowercase=True), GptConfig())
    with pytest.raises(ConfigError, match="symbols of toy tasks are tokens"):
        check_effects(run)
