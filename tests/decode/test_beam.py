from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.config import TransformerConfig
from regard.decode.beam import beam_search
from regard.decode.protocols import limit_lengths
from regard.errors import ConfigError, RegardError
from regard.models.transformer import Transformer
from regard.tokenizers.special_ids import BOS, EOS, PAD, UNK

SEEDS = st.integers(0, 10_000)
WORDS = st.integers(EOS + 1, 11)
SOURCES = st.lists(st.lists(WORDS, max_size=6), min_size=1, max_size=6)
PROPERTY = settings(deadline=None, max_examples=30)


@PROPERTY
@given(seed=SEEDS, sources=SOURCES, limit=st.integers(1, 12), alpha=st.sampled_from([0.0, 0.6, 1.5]))
def test_beam_one_is_greedy(bench: Any, seed: int, sources: list[list[int]], limit: int, alpha: float) -> None:
    model = bench.model(seed, 12)
    found = beam_search(model, bench.pad(sources), beam=1, length_penalty=alpha, max_lengths=[limit] * len(sources))
    for source, [best] in zip(sources, found, strict=True):
        ids, total, finished = bench.greedy(model, source, limit)
        assert best.ids == tuple(ids)
        assert best.finished == finished
        assert best.log_prob == pytest.approx(total, abs=1e-9)


@PROPERTY
@given(
    seed=SEEDS,
    sources=SOURCES,
    beam=st.integers(1, 5),
    extra=st.integers(0, 3),
    no_repeat=st.integers(0, 2),
    data=st.data(),
)
def test_batch_mates_and_padding_are_irrelevant(
    bench: Any, seed: int, sources: list[list[int]], beam: int, extra: int, no_repeat: int, data: st.DataObject
) -> None:
    model = bench.model(seed, 12, dtype=torch.float32)
    limits = data.draw(st.lists(st.integers(4, 14), min_size=len(sources), max_size=len(sources)))
    prefixes = data.draw(st.lists(st.lists(WORDS, max_size=3), min_size=len(sources), max_size=len(sources)))
    options = {"beam": beam, "length_penalty": 0.6, "n_best": beam, "no_repeat_ngram": no_repeat}
    together = beam_search(model, bench.pad(sources, extra), max_lengths=limits, prefixes=prefixes, **options)
    for source, limit, prefix, found in zip(sources, limits, prefixes, together, strict=True):
        assert beam_search(model, bench.pad([source]), max_lengths=[limit], prefixes=[prefix], **options) == [found]


@PROPERTY
@given(seed=SEEDS, alpha=st.sampled_from([0.0, 0.6, 1.0, 2.0]), limit=st.integers(1, 5), n_best=st.integers(1, 4))
def test_a_wide_beam_finds_the_best_of_all_translations(
    bench: Any, seed: int, alpha: float, limit: int, n_best: int
) -> None:
    model = bench.model(seed, 6)
    every = bench.all_translations(model, [4, 5], limit, vocab=6)
    score = {ids: total / ((6 + len(ids)) / 6) ** alpha for ids, total in every.items()}
    best = sorted(score, key=score.__getitem__, reverse=True)[:n_best]
    [found] = beam_search(
        model, bench.pad([[4, 5]]), beam=100, length_penalty=alpha, max_lengths=[limit], n_best=n_best
    )
    finished = [one for one in found if one.finished]
    assert [one.ids for one in finished] == best
    assert [one.score for one in finished] == pytest.approx([score[ids] for ids in best], abs=1e-9)


@PROPERTY
@given(seed=SEEDS, sources=SOURCES, beam=st.integers(2, 6), end=st.floats(-4, 4), limit=st.integers(1, 10))
def test_the_n_best_are_sorted_distinct_and_within_the_limit(
    bench: Any, seed: int, sources: list[list[int]], beam: int, end: float, limit: int
) -> None:
    found = beam_search(
        bench.model(seed, 12, end=end),
        bench.pad(sources),
        beam=beam,
        length_penalty=0.6,
        max_lengths=torch.tensor([limit] * len(sources)),
        n_best=beam,
    )
    for hypotheses in found:
        keys = [(one.finished, one.score) for one in hypotheses]
        assert 1 <= len(keys) <= beam
        assert keys == sorted(keys, reverse=True)
        assert len({(one.ids, one.finished) for one in hypotheses}) == len(hypotheses)
        for one in hypotheses:
            assert len(one.token_log_probs) == len(one.ids) + one.finished <= limit
            assert one.finished or len(one.ids) == limit
            assert one.log_prob == pytest.approx(sum(one.token_log_probs), abs=1e-9)
            assert one.score == pytest.approx(one.log_prob / ((5 + len(one.token_log_probs)) / 6) ** 0.6, abs=1e-9)
            assert not {PAD, UNK, BOS, EOS} & set(one.ids)


@PROPERTY
@given(seed=SEEDS, beam=st.integers(1, 5), n_best=st.integers(1, 5), alpha=st.sampled_from([0.0, 0.6, 1.5]))
def test_stopping_early_changes_nothing(bench: Any, seed: int, beam: int, n_best: int, alpha: float) -> None:
    # Asking for more of the n best makes the search go on for longer; the first of them must stay.
    n_best = min(n_best, beam)
    model, source = bench.model(seed, 12), bench.pad([[4, 5, 6]])
    options = {"beam": beam, "length_penalty": alpha, "max_lengths": [15]}
    [few] = beam_search(model, source, n_best=n_best, **options)
    [many] = beam_search(model, source, n_best=beam, **options)
    assert few == many[:n_best]


@PROPERTY
@given(seed=SEEDS, prefix=st.lists(st.sampled_from([UNK, 4, 5, 6]), max_size=6), beam=st.integers(1, 4))
def test_a_forced_prefix_is_written_and_the_rest_is_free(bench: Any, seed: int, prefix: list[int], beam: int) -> None:
    model = bench.model(seed, 12)
    [found] = beam_search(
        model,
        bench.pad([[7, 8]]),
        beam=beam,
        length_penalty=0.6,
        max_lengths=[9],
        n_best=beam,
        no_repeat_ngram=1,
        prefixes=[prefix],
    )
    for one in found:
        rest = one.ids[len(prefix) :]
        assert one.ids[: len(prefix)] == tuple(prefix)
        assert len(set(rest)) == len(rest)
        assert not set(rest) & set(prefix)
    [[plain]] = beam_search(model, bench.pad([[7, 8]]), beam=1, length_penalty=0.6, max_lengths=[9], prefixes=[prefix])
    ids, total, _ = bench.greedy(model, [7, 8], 9, prefix)
    assert plain.ids == tuple(ids)
    assert plain.log_prob == pytest.approx(total, abs=1e-9)


@PROPERTY
@given(seed=SEEDS, n=st.integers(1, 3), beam=st.integers(1, 4))
def test_no_ngram_is_written_twice(bench: Any, seed: int, n: int, beam: int) -> None:
    model = bench.model(seed, 7, end=-5.0)
    [found] = beam_search(
        model, bench.pad([[4]]), beam=beam, length_penalty=0.6, max_lengths=[20], n_best=beam, no_repeat_ngram=n
    )
    for one in found:
        ngrams = [one.ids[start : start + n] for start in range(len(one.ids) - n + 1)]
        assert len(set(ngrams)) == len(ngrams)


def test_if_every_token_is_forbidden_the_tokens_so_far_are_returned(bench: Any) -> None:
    model = bench.model(1, 7, end=-math.inf)
    [[best]] = beam_search(model, bench.pad([[4]]), beam=3, length_penalty=0.6, max_lengths=[50], no_repeat_ngram=1)
    assert sorted(best.ids) == [4, 5, 6]
    assert not best.finished


def test_a_model_that_never_ends_is_cut_at_the_limit(bench: Any) -> None:
    model = bench.model(1, 12, end=-100.0)
    found = beam_search(model, bench.pad([[4], [5]]), beam=4, length_penalty=0.6, max_lengths=[7, 30])
    assert [len(best.ids) for [best] in found] == [7, 30]
    assert not any(best.finished for [best] in found)


def test_finished_translations_rank_before_those_that_were_cut(bench: Any) -> None:
    [found] = beam_search(
        bench.model(3, 12, end=-1.0), bench.pad([[4]]), beam=5, length_penalty=0.6, max_lengths=[6], n_best=5
    )
    finished = [one.finished for one in found]
    assert finished == sorted(finished, reverse=True)
    assert set(finished) == {True, False}


def test_what_is_finished_is_no_longer_computed(bench: Any) -> None:
    model = bench.model(5, 12)
    sources = [[4], [5], [6], [7]]
    apart = []
    for source in sources:
        beam_search(model, bench.pad([source]), beam=4, length_penalty=0.6, max_lengths=[40])
        apart.append(list(model.rows_fed))
    beam_search(model, bench.pad(sources), beam=4, length_penalty=0.6, max_lengths=[40] * 4)
    longest = max(map(len, apart))
    assert model.rows_fed == [sum(rows[t] for rows in apart if t < len(rows)) for t in range(longest)]
    assert longest < 40
    assert len({len(rows) for rows in apart}) > 1


def test_equal_scores_go_to_the_lower_token(bench: Any) -> None:
    model = bench.model(1, 40, spread=0.0, end=-1.0)
    [found] = beam_search(model, bench.pad([[4]]), beam=3, length_penalty=0.0, max_lengths=[2], n_best=3)
    assert [one.ids for one in found] == [(4, 4), (4, 5), (4, 6)]


def test_no_sentences_no_translations(bench: Any) -> None:
    empty = torch.empty(0, 3, dtype=torch.int64)
    assert beam_search(bench.model(1, 12), empty, beam=4, length_penalty=0.6, max_lengths=[]) == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"beam": 2, "n_best": 3}, "n_best = 3 is not possible with beam = 2"),
        ({"beam": 0}, "beam = 0 is too small"),
        ({"length_penalty": -1.0}, "length_penalty = -1.0 is too small"),
        ({"max_lengths": [0]}, "maximum length of 0"),
        ({"max_lengths": [5, 5]}, "1 sentences but 2 maximum lengths"),
        ({"prefixes": [[4], [4]]}, "1 sentences but 2 prefixes"),
        ({"prefixes": [[4, 4, 4, 4, 4]]}, "leaves no room within its maximum length of 5"),
        ({"prefixes": [[4, EOS]]}, "contains the end token"),
    ],
)
def test_impossible_options_are_refused(bench: Any, options: dict[str, Any], words: str) -> None:
    defaults: dict[str, Any] = {"beam": 4, "length_penalty": 0.6, "max_lengths": [5]}
    with pytest.raises(ConfigError, match=words):
        beam_search(bench.model(1, 12), bench.pad([[4]]), **(defaults | options))


def test_a_model_with_nan_logits_is_an_error(bench: Any) -> None:
    with pytest.raises(RegardError, match="NaN or infinity at target token 1"):
        beam_search(bench.model(1, 12, end=math.nan), bench.pad([[4]]), beam=2, length_penalty=0.6, max_lengths=[5])


def test_lengths_follow_the_source(bench: Any) -> None:
    assert limit_lengths(bench.pad([[4, 4, 4], [4], []]), ratio=1.5, extra=10) == [14, 11, 10]


@pytest.mark.parametrize("norm_order", ["post", "pre"])
def test_a_cached_search_of_a_transformer_equals_whole_forward_passes(bench: Any, norm_order: Any) -> None:
    torch.manual_seed(0)
    config = TransformerConfig(
        src_vocab_size=24,
        tgt_vocab_size=24,
        d_model=16,
        n_heads=2,
        d_ff=32,
        n_encoder_layers=2,
        n_decoder_layers=2,
        norm_order=norm_order,
    )
    model = Transformer(config).double().eval()
    sources = [[4, 9, 5, 11], [7], [20, 21, 22, 23, 8, 6, 5], [12, 13]]
    limits = [12, 5, 9, 14]
    options = {"length_penalty": 0.6, "max_lengths": limits}
    found = beam_search(model, bench.pad(sources), beam=1, **options)
    for source, limit, [best] in zip(sources, limits, found, strict=True):
        ids, total, finished = bench.greedy(model, source, limit)
        assert (best.ids, best.finished) == (tuple(ids), finished)
        assert best.log_prob == pytest.approx(total, abs=1e-9)
    together = beam_search(model, bench.pad(sources), beam=4, n_best=4, **options)
    for source, limit, hypotheses in zip(sources, limits, together, strict=True):
        [alone] = beam_search(model, bench.pad([source]), beam=4, n_best=4, length_penalty=0.6, max_lengths=[limit])
        assert [one.ids for one in alone] == [one.ids for one in hypotheses]
        assert [one.score for one in alone] == pytest.approx([one.score for one in hypotheses], abs=1e-9)
