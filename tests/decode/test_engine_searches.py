"""The searches in C++ against those in Python, which use the model's or the engine's steps."""

from __future__ import annotations

import threading
from itertools import chain, pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.config import BeamRule, DecodeConfig, TransformerConfig
from regard.decode.beam import beam_search
from regard.decode.engine import Engine
from regard.decode.engine_control import Partial, SearchCancelled, SearchControl
from regard.decode.engine_search import engine_score, engine_search
from regard.decode.hypotheses import Hypothesis
from regard.decode.model_engine import SteppedEngine, build_engine
from regard.decode.random_numbers import uniform_numbers
from regard.decode.restricted import restrict
from regard.decode.sampling import sample_search
from regard.decode.scoring import score_translations
from regard.decode.search import pad_sources, search
from regard.errors import ConfigError
from regard.inspect.trace import trace_translation
from regard.models.transformer import Transformer
from regard.tokenizers.special_ids import BOS, EOS, UNK

CPU = torch.device("cpu")
VOCABULARY = 40
TOKENS = st.integers(EOS + 1, VOCABULARY - 1)
SOURCES = st.lists(st.lists(TOKENS, max_size=6), min_size=1, max_size=5)
PROPERTY = settings(max_examples=30, deadline=None)


def make_model(seed: int, **shape: Any) -> Transformer:
    torch.manual_seed(seed)
    sizes: dict[str, Any] = {"d_model": 16, "n_heads": 2, "d_ff": 24, "n_encoder_layers": 1, "n_decoder_layers": 2}
    vocabulary = {"src_vocab_size": VOCABULARY, "tgt_vocab_size": VOCABULARY}
    model = Transformer(TransformerConfig(**{**sizes, **vocabulary, "tie_embeddings": "none", **shape})).eval()
    return model.requires_grad_(False)


def engine_of(model: Transformer) -> Engine:
    engine = build_engine(model, "float32")
    assert engine is not None, "this test needs a C++ compiler"
    return engine


def ended(sources: list[list[int]]) -> list[list[int]]:
    return [[*ids, EOS] for ids in sources]


def same(expected: list[list[Hypothesis]], found: list[list[Hypothesis]]) -> None:
    """Equal; where scores are nearly equal, either may come first."""
    for sentence, other in zip(expected, found, strict=True):
        assert [one.score for one in sentence] == pytest.approx([one.score for one in other], abs=1e-4)
        if all(a.score - b.score > 1e-3 for a, b in pairwise(sentence)):
            assert [(one.ids, one.finished) for one in sentence] == [(one.ids, one.finished) for one in other]
            for a, b in zip(sentence, other, strict=True):
                assert a.token_log_probs == pytest.approx(b.token_log_probs, abs=1e-4)


@PROPERTY
@given(
    seed=st.integers(0, 99),
    sources=SOURCES,
    rule=st.sampled_from(["paper", "huggingface"]),
    beam=st.integers(1, 4),
    n_best=st.integers(1, 4),
    ngram=st.integers(0, 3),
    prefixes=st.none() | st.lists(st.lists(TOKENS | st.just(UNK), max_size=3), min_size=5, max_size=5),
    forbidden=st.lists(TOKENS, max_size=3),
    allowed=st.none() | st.sets(TOKENS, min_size=1),
    limits=st.lists(st.integers(4, 12), min_size=5, max_size=5),
)
def test_beam_search(
    seed: int,
    sources: list[list[int]],
    rule: BeamRule,
    beam: int,
    n_best: int,
    ngram: int,
    prefixes: list[list[int]] | None,
    forbidden: list[int],
    allowed: set[int] | None,
    limits: list[int],
) -> None:
    engine = engine_of(make_model(seed))
    if allowed is not None:
        engine = engine.restricted(np.array(sorted({*range(4), *allowed}), np.int64))
    how: dict[str, Any] = {"beam": beam, "length_penalty": 0.6, "rule": rule, "n_best": min(n_best, beam)}
    how |= {"no_repeat_ngram": ngram, "forbidden": forbidden, "max_lengths": limits[: len(sources)]}
    how["prefixes"] = prefixes and prefixes[: len(sources)]
    expected = beam_search(SteppedEngine(engine), pad_sources(sources, CPU), **how)
    same(expected, engine.beam_search(ended(sources), **how))


@PROPERTY
@given(
    seed=st.integers(0, 99),
    sources=SOURCES,
    temperature=st.floats(0.3, 3.0),
    top_k=st.integers(0, 45),
    top_p=st.floats(0.0, 1.0),
    n_samples=st.integers(1, 3),
    ngram=st.integers(0, 2),
    prefixes=st.none() | st.lists(st.lists(TOKENS, max_size=3), min_size=5, max_size=5),
)
def test_sampling(
    seed: int,
    sources: list[list[int]],
    temperature: float,
    top_k: int,
    top_p: float,
    n_samples: int,
    ngram: int,
    prefixes: list[list[int]] | None,
) -> None:
    """The same tokens, unless a random number is within rounding of the border between two."""
    engine = engine_of(make_model(seed))
    how: dict[str, Any] = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "n_samples": n_samples}
    how |= {"seeds": [seed + i for i in range(len(sources))], "max_lengths": [9] * len(sources)}
    how |= {"no_repeat_ngram": ngram, "prefixes": prefixes and prefixes[: len(sources)], "forbidden": [7]}
    expected = sample_search(SteppedEngine(engine), pad_sources(sources, CPU), **how)
    found = engine.sample(ended(sources), **how)
    drawn = [(one.ids, one.finished) for samples in found for one in samples]
    wanted = [(one.ids, one.finished) for samples in expected for one in samples]
    assert sum(a != b for a, b in zip(drawn, wanted, strict=True)) <= 1
    if drawn == wanted:
        pairs = zip(chain.from_iterable(expected), chain.from_iterable(found), strict=True)
        assert all(a.token_log_probs == pytest.approx(b.token_log_probs, abs=1e-4) for a, b in pairs)


@pytest.mark.parametrize("method", ["beam", "sample"])
def test_nothing_depends_on_batch_or_thread(method: Any) -> None:
    """Bit for bit."""
    engine = engine_of(make_model(5))
    sources = [[5 + i % 20, 7, 9 + i % 30][: 1 + i % 3] for i in range(40)]
    how = DecodeConfig(method=method, beam=3, batch_tokens=2048, seed=3, no_repeat_ngram=2)
    prefixes = [[9] * (i % 2) for i in range(40)]
    one = engine_search(engine, sources, how, 2, workers=1, prefixes=prefixes)
    small = DecodeConfig(method=method, beam=3, batch_tokens=8, seed=3, no_repeat_ngram=2)
    assert engine_search(engine, sources, small, 2, workers=2, prefixes=prefixes) == one
    assert engine_search(engine, sources, small, 2, workers=1, prefixes=prefixes) == one


def test_the_random_numbers_are_uniform_and_known() -> None:
    numbers = uniform_numbers(12345, 3, np.arange(100_000))
    counts = np.histogram(numbers, bins=20, range=(0, 1))[0]
    assert ((counts - 5000) ** 2 / 5000).sum() < 43.8  # 19 degrees of freedom, p = 0.001
    assert abs(np.corrcoef(numbers[:-1], numbers[1:])[0, 1]) < 0.01
    # Numbers 1 and 2 of splitmix64 with the seed 0, as its authors' code gives them.
    first, second = 0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4
    assert uniform_numbers(0, 0, [1, 2]).tolist() == [(first >> 11) * 2.0**-53, (second >> 11) * 2.0**-53]


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 99), sources=SOURCES, targets=st.lists(st.lists(TOKENS, max_size=9), min_size=5, max_size=5))
def test_scores_and_attention_are_the_models(seed: int, sources: list[list[int]], targets: list[list[int]]) -> None:
    position = ["sinusoidal", "rotary", "relative", "learned"][seed % 4]
    model, targets = make_model(seed, position=position), targets[: len(sources)]
    for rule in ("paper", "huggingface"):
        wanted = score_translations(model, pad_sources(sources, CPU), targets, rule=rule)
        heads = np.full((2, 2), 0.25, np.float32)
        found = engine_of(model).score(ended(sources), targets, 0.6, rule, heads)
        for a, b in zip(wanted, found, strict=True):
            assert a.ids == b.hypothesis.ids
            assert a.score == pytest.approx(b.hypothesis.score, abs=1e-4)
            assert a.token_log_probs == pytest.approx(b.hypothesis.token_log_probs, abs=1e-4)
    trace = trace_translation(model, sources[0], targets[0], [], [], ("decoder.*.cross.weights",))
    assert found[0].attention_LM is not None
    np.testing.assert_allclose(found[0].attention_LM, trace.cross_attention(), atol=1e-5)


def test_scores_in_batches_and_of_restricted_vocabularies() -> None:
    engine = engine_of(make_model(2))
    sources, targets = [[5 + i % 20, 6] for i in range(30)], [[7] * (i % 5) for i in range(30)]
    together = engine_score(engine, sources, targets, DecodeConfig(batch_tokens=2048), workers=1)
    alone = [engine_score(engine, [s], [t], DecodeConfig())[0] for s, t in zip(sources, targets, strict=True)]
    assert [one.hypothesis for one in together] == [one.hypothesis for one in alone]
    narrow = engine.restricted(np.array([*range(4), 7], np.int64))
    searched = restrict(SteppedEngine(engine), np.array([*range(4), 7], np.int64))
    [expected] = score_translations(searched, pad_sources([[5, 6]], CPU), [[7, 7]])
    [found] = narrow.score([[5, 6, EOS]], [[7, 7]])
    assert found.hypothesis.token_log_probs == pytest.approx(expected.token_log_probs, abs=1e-5)
    assert narrow.score([[5, EOS]], [[8]])[0].hypothesis.token_log_probs[0] == -np.inf
    with pytest.raises(ConfigError, match="2 sources but 1 translations"):
        engine.score([[5, EOS]] * 2, [[7]])
    with pytest.raises(ConfigError, match=f"translation 1 contains the end token .id {EOS}."):
        engine.score([[5, EOS]], [[EOS]])
    with pytest.raises(IndexError, match="target token 40 at position 0"):
        engine.score([[5, EOS]], [[VOCABULARY]])


@pytest.mark.parametrize("method", ["beam", "sample"])
def test_partial_results_end_in_the_translation(method: Any) -> None:
    engine, shown = engine_of(make_model(8)), []

    def observe(partial: Partial) -> None:
        shown.append(partial)

    how = DecodeConfig(method=method, beam=1, max_length_extra=9)
    sources = [[5, 6, 7], [8], [9, 10]]
    found = engine_search(engine, sources, how, workers=1, control=SearchControl(observe))
    assert found == engine_search(engine, sources, how, workers=1)
    assert {index: tuple(ids) for index, ids in shown[-1].items()} == {i: best[0].ids for i, best in enumerate(found)}
    for before, after in pairwise(shown):  # greedy search and sampling only add tokens
        assert all(after[index][: len(ids)] == ids for index, ids in before.items())


def test_a_search_is_cancelled() -> None:
    engine, steps = engine_of(make_model(8)), []

    def observe(partial: Partial) -> None:
        steps.append(partial)
        if len(steps) == 3:
            thread = threading.Thread(target=control.cancel)
            thread.start()
            thread.join()

    control = SearchControl(observe)
    how = DecodeConfig(beam=2, max_length_extra=30, length_penalty=4.0)
    with pytest.raises(SearchCancelled):
        engine_search(engine, [[5, 6]], how, workers=1, control=control)
    assert len(steps) == 3
    with pytest.raises(SearchCancelled):
        engine_search(engine, [[5, 6]], how, control=control)


def test_an_error_of_the_observer_is_raised() -> None:
    def observe(partial: Partial) -> None:
        raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        engine_search(engine_of(make_model(8)), [[5, 6]] * 9, DecodeConfig(), control=SearchControl(observe))


def test_every_next_token_may_be_forbidden() -> None:
    """The tokens so far are returned."""
    model = make_model(1, output_bias=True)
    model.output_bias[EOS] = -1e30  # type: ignore[index]
    engine = engine_of(model).restricted(np.array([*range(4), 5, 6, 7], np.int64))
    how: dict[str, Any] = {"length_penalty": 0.6, "max_lengths": [50], "no_repeat_ngram": 1, "forbidden": [EOS]}
    [[found]] = engine.beam_search([[9, EOS]], beam=1, **how)
    [samples] = engine.sample([[9, EOS]], temperature=1.0, top_k=0, top_p=1.0, seeds=[1], n_samples=4, **how)
    assert all(sorted(one.ids) == [5, 6, 7] and not one.finished for one in [found, *samples])


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"beam": 0}, "beam = 0 is too small"),
        ({"n_best": 3}, "n_best = 3 is not possible with beam = 2"),
        ({"max_lengths": [0]}, "leaves no room for any token"),
        ({"max_lengths": [4, 4]}, "1 sentences but 2 maximum lengths"),
        ({"prefixes": [[5] * 8]}, "which leaves no room within its maximum length of 8"),
        ({"prefixes": [[BOS]]}, "contains the begin token"),
    ],
)
def test_impossible_options_are_refused(how: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        engine_of(make_model(1)).beam_search(
            [[5, EOS]], **{"beam": 2, "length_penalty": 0.6, "max_lengths": [8], **how}
        )


def test_an_empty_batch_is_searched() -> None:
    engine = engine_of(make_model(1))
    assert search(engine, [], DecodeConfig(), CPU) == []
    assert engine.beam_search([], beam=2, length_penalty=0.6, max_lengths=[]) == []


def test_unknown_methods_and_missing_translations_are_refused() -> None:
    engine, how = engine_of(make_model(1)), DecodeConfig()
    with pytest.raises(ConfigError, match="there are 2 sources but 1 translations; give one each"):
        engine_score(engine, [[5], [6]], [[7]], how)
    object.__setattr__(how, "method", "diverse")  # past the check of the settings
    with pytest.raises(AssertionError, match="'diverse'"):
        search(engine, [[5]], how, CPU)
