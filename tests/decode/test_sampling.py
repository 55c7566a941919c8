from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.decode.random_numbers import spread_seed
from regard.decode.sampling import draw_tokens, in_nucleus, sample_search
from regard.errors import ConfigError
from regard.tokenizers.special_ids import BOS, EOS, PAD, UNK

SEEDS = st.integers(0, 10_000)
SOURCES = st.lists(st.lists(st.integers(EOS + 1, 11), max_size=6), min_size=1, max_size=6)
PROPERTY = settings(deadline=None, max_examples=30)
PLAIN: dict[str, Any] = {"temperature": 1.0, "top_k": 0, "top_p": 1.0}


@PROPERTY
@given(seed=SEEDS, sources=SOURCES, limit=st.integers(1, 12), cut=st.sampled_from([{"top_k": 1}, {"top_p": 0.0}]))
def test_the_likeliest_token_alone_is_greedy(
    bench: Any, seed: int, sources: list[list[int]], limit: int, cut: dict[str, Any]
) -> None:
    model = bench.model(seed, 12)
    found = sample_search(
        model,
        bench.pad(sources),
        seeds=range(len(sources)),
        max_lengths=[limit] * len(sources),
        **(PLAIN | cut | {"temperature": 3.0}),
    )
    for source, [sample] in zip(sources, found, strict=True):
        ids, total, finished = bench.greedy(model, source, limit)
        assert (sample.ids, sample.finished) == (tuple(ids), finished)
        assert sample.log_prob == pytest.approx(total, abs=1e-9)


@PROPERTY
@given(
    seed=SEEDS,
    sources=SOURCES,
    top_k=st.integers(0, 5),
    top_p=st.floats(0.1, 1.0),
    n_samples=st.integers(1, 3),
    data=st.data(),
)
def test_samples_do_not_depend_on_the_batch(
    bench: Any, seed: int, sources: list[list[int]], top_k: int, top_p: float, n_samples: int, data: st.DataObject
) -> None:
    model = bench.model(seed, 12, dtype=torch.float32)
    limits = data.draw(st.lists(st.integers(1, 12), min_size=len(sources), max_size=len(sources)))
    seeds = spread_seed(seed, range(len(sources)))
    options = {"temperature": 0.8, "top_k": top_k, "top_p": top_p, "n_samples": n_samples}
    together = sample_search(model, bench.pad(sources, 2), seeds=seeds, max_lengths=limits, **options)
    for source, one_seed, limit, found in zip(sources, seeds, limits, together, strict=True):
        alone = sample_search(model, bench.pad([source]), seeds=[one_seed], max_lengths=[limit], **options)
        assert alone == [found]
        for sample in found:
            assert len(sample.token_log_probs) == len(sample.ids) + sample.finished <= limit
            assert not {PAD, UNK, BOS, EOS} & set(sample.ids)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_frequencies_follow_the_softmax(bench: Any, temperature: float) -> None:
    model, draws = bench.model(2, 10), 4000
    [found] = sample_search(
        model,
        bench.pad([[4]]),
        seeds=[7],
        max_lengths=[1],
        n_samples=draws,
        **(PLAIN | {"temperature": temperature}),
    )
    seen = Counter(sample.ids[0] if sample.ids else EOS for sample in found)
    logits_V = model(bench.pad([[4]]), torch.tensor([[BOS]]))[0, 0] / temperature
    logits_V[[PAD, UNK, BOS]] = -math.inf
    expected = (logits_V.softmax(0) * draws).tolist()
    chi_square = sum((seen[v] - expected[v]) ** 2 / expected[v] for v in range(EOS, 10))
    assert chi_square < 24.3  # seven cells: six degrees of freedom, p = 0.0005


def test_samples_differ_between_draws_seeds_and_sentences(bench: Any) -> None:
    model = bench.model(2, 12, spread=0.5, end=-3.0)
    options = dict(max_lengths=[12, 12], n_samples=4, **PLAIN)
    one, two = sample_search(model, bench.pad([[4], [4]]), seeds=spread_seed(1, [0, 1]), **options)
    [other, _] = sample_search(model, bench.pad([[4], [4]]), seeds=spread_seed(2, [0, 1]), **options)
    assert len({sample.ids for sample in [*one, *two, *other]}) == 12


def test_seeds_are_stable_and_distinct() -> None:
    assert spread_seed(1, [5, 6]) == [spread_seed(1, [5])[0], spread_seed(1, [6])[0]]
    assert len({seed for run in range(20) for seed in spread_seed(run, range(20))}) == 400


@pytest.mark.parametrize(
    ("top_p", "kept"), [(0.0, 1), (0.4, 1), (0.5, 1), (0.6, 2), (0.8, 2), (0.9, 3), (0.96, 4), (1.0, 4)]
)
def test_the_nucleus_is_the_fewest_tokens_that_reach_top_p(top_p: float, kept: int) -> None:
    prob_RC = torch.tensor([[0.5, 0.3, 0.15, 0.05]], dtype=torch.float64)
    assert in_nucleus(prob_RC, top_p).sum().item() == kept


def test_top_k_and_top_p_exclude_improbable_tokens() -> None:
    log_probs_RV = torch.tensor([0.1, 0.4, 0.2, 0.3], dtype=torch.float64).log().expand(1000, -1)
    uniform_R = torch.linspace(0, 1, 1001)[:-1]

    def drawn(top_k: int, top_p: float) -> set[int]:
        return set(draw_tokens(log_probs_RV, uniform_R, 1.0, top_k, top_p).tolist())

    assert drawn(0, 1.0) == {0, 1, 2, 3}
    assert drawn(2, 1.0) == {1, 3}
    assert drawn(9, 1.0) == {0, 1, 2, 3}
    assert drawn(0, 0.85) == {1, 2, 3}
    assert drawn(3, 0.5) == {1, 3}


def test_rounding_never_draws_the_impossible() -> None:
    log_probs_RV = torch.tensor([[-math.inf, 0.0, -math.inf]])
    assert draw_tokens(log_probs_RV, torch.tensor([1.0]), 1.0, 0, 1.0).item() == 1


@PROPERTY
@given(seed=SEEDS, prefix=st.lists(st.integers(UNK, 6).filter(lambda v: v not in (BOS, EOS)), max_size=5))
def test_prefix_and_blocking_hold(bench: Any, seed: int, prefix: list[int]) -> None:
    model = bench.model(seed, 12, end=-2.0)
    [found] = sample_search(
        model,
        bench.pad([[4]]),
        seeds=[seed],
        max_lengths=[14],
        n_samples=3,
        no_repeat_ngram=1,
        prefixes=[prefix],
        **PLAIN,
    )
    for sample in found:
        rest = sample.ids[len(prefix) :]
        assert sample.ids[: len(prefix)] == tuple(prefix)
        assert len(set(rest)) == len(rest)
        assert not set(rest) & set(prefix)


def test_if_every_token_is_forbidden_the_tokens_so_far_are_returned(bench: Any) -> None:
    model = bench.model(1, 7, end=-math.inf)
    [found] = sample_search(
        model, bench.pad([[4]]), seeds=[1], max_lengths=[50], n_samples=5, no_repeat_ngram=1, **PLAIN
    )
    assert all(sorted(sample.ids) == [4, 5, 6] and not sample.finished for sample in found)


def test_a_sentence_that_cannot_continue_does_not_affect_the_others(bench: Any) -> None:
    model = bench.model(1, 9, end=-math.inf)
    sources, prefixes = [[4], [5], [6]], [[], [4, 4, 4], [5]]
    options = {"max_lengths": [20] * 3, "n_samples": 2, "no_repeat_ngram": 1, **PLAIN}
    together = sample_search(model, bench.pad(sources), seeds=[1, 2, 3], prefixes=prefixes, **options)
    assert [[len(sample.ids) for sample in samples] for samples in together] == [[5, 5], [7, 7], [5, 5]]
    for number, (source, prefix) in enumerate(zip(sources, prefixes, strict=True)):
        one = options | {"max_lengths": [20]}
        [alone] = sample_search(model, bench.pad([source]), seeds=[number + 1], prefixes=[prefix], **one)
        assert alone == together[number]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"temperature": 0.0}, "temperature = 0.0"),
        ({"top_k": -1}, "top_k = -1"),
        ({"top_p": 1.5}, "top_p = 1.5"),
        ({"n_samples": 0}, "n_samples = 0"),
        ({"seeds": [1, 2]}, "1 sentences but 2 seeds"),
    ],
)
def test_impossible_options_are_refused(bench: Any, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        sample_search(bench.model(1, 12), bench.pad([[4]]), **(PLAIN | {"seeds": [1], "max_lengths": [5]} | options))


def test_no_sentences_no_samples(bench: Any) -> None:
    empty = torch.empty(0, 3, dtype=torch.int64)
    assert sample_search(bench.model(1, 12), empty, seeds=[], max_lengths=[], **PLAIN) == []
