"""The beam search of the transformers library against an oracle too simple to be wrong, and what both rules share.

It equals the real `generate` of the library: tests/interop/huggingface/test_marian.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.decode.beam import BeamStep, beam_search
from regard.decode.hypotheses import length_penalty_divisor
from regard.decode.sampling import sample_search
from regard.decode.scoring import score_translations
from regard.inspect.beam_tree import BeamTree
from regard.tokenizers.special_ids import BOS, EOS, PAD

SEEDS = st.integers(0, 10_000)
SOURCES = st.lists(st.lists(st.integers(EOS + 1, 11), max_size=6), min_size=1, max_size=4)
PROPERTY = settings(deadline=None, max_examples=30)


def oracle(
    bench: Any, model: Any, source: Sequence[int], beam: int, alpha: float, limit: int
) -> list[tuple[float, tuple[int, ...]]]:
    """(score, ids), best first: `beam` hypotheses live until as many have ended and nothing better is in sight."""
    running: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    finished: list[tuple[float, tuple[int, ...]]] = []
    for length in range(1, limit + 1):
        candidates: list[tuple[float, tuple[int, ...], int]] = []
        for total, ids in running:
            if length == limit:
                candidates.append((total, ids, EOS))
                continue
            log_probs = model(bench.pad([source]), torch.tensor([[BOS, *ids]]))[0, -1].double().log_softmax(0)
            candidates += [(total + log_probs[t].item(), ids, t) for t in range(len(log_probs)) if t not in (PAD, BOS)]
        candidates = sorted(candidates, key=lambda one: -one[0])[: 2 * beam]
        ended = [(total / length**alpha, ids) for total, ids, token in candidates[:beam] if token == EOS]
        finished = sorted(finished + ended, key=lambda one: -one[0])[:beam]
        running = [(total, (*ids, token)) for total, ids, token in candidates if token != EOS][:beam]
        if not running or (len(finished) == beam and running[0][0] / length**alpha <= finished[-1][0]):
            break
    return finished


@PROPERTY
@given(
    seed=SEEDS,
    sources=SOURCES,
    beam=st.integers(2, 5),
    alpha=st.sampled_from([0.0, 0.6, 1.0, 2.0]),
    limit=st.integers(1, 9),
    end=st.sampled_from([0.0, 2.0]),
)
def test_it_finds_what_the_oracle_finds(
    bench: Any, seed: int, sources: list[list[int]], beam: int, alpha: float, limit: int, end: float
) -> None:
    model = bench.model(seed, 12, end=end)
    limits = [limit + i for i in range(len(sources))]
    found = beam_search(
        model, bench.pad(sources), beam=beam, length_penalty=alpha, rule="huggingface", max_lengths=limits, n_best=beam
    )
    for source, most, some in zip(sources, limits, found, strict=True):
        wanted = oracle(bench, model, source, beam, alpha, most)
        assert [one.ids for one in some] == [ids for _, ids in wanted]
        assert [one.score for one in some] == pytest.approx([score for score, _ in wanted], abs=1e-5)
        assert all(one.finished for one in some)


@PROPERTY
@given(seed=SEEDS, sources=SOURCES, limit=st.integers(1, 9))
def test_greedy_search_takes_the_most_probable_token_and_ends_at_the_limit(
    bench: Any, seed: int, sources: list[list[int]], limit: int
) -> None:
    model = bench.model(seed, 12)
    found = beam_search(
        model, bench.pad(sources), beam=1, length_penalty=1.0, rule="huggingface", max_lengths=[limit] * len(sources)
    )
    for source, [best] in zip(sources, found, strict=True):
        assert best.finished
        ids: list[int] = []
        while len(ids) < limit - 1:
            logits_V = model(bench.pad([source]), torch.tensor([[BOS, *ids]]))[0, -1]
            logits_V[[PAD, BOS]] = -math.inf
            if int(logits_V.argmax()) == EOS:
                break
            ids.append(int(logits_V.argmax()))
        assert best.ids == tuple(ids)


def test_a_forced_prefix_and_blocked_repetitions_go_with_it(bench: Any) -> None:
    model = bench.model(3, 12, end=-3.0)
    [found] = beam_search(
        model,
        bench.pad([[5, 6]]),
        beam=3,
        length_penalty=1.0,
        rule="huggingface",
        max_lengths=[8],
        n_best=3,
        no_repeat_ngram=2,
        prefixes=[[9, 7]],
    )
    assert len(found) == 3
    for one in found:
        assert one.ids[:2] == (9, 7)
        pairs = list(zip(one.ids, one.ids[1:], strict=False))
        assert len(set(pairs)) == len(pairs)


def test_scores_are_divided_by_the_length_itself(bench: Any) -> None:
    assert length_penalty_divisor(7, 0.5, "huggingface") == pytest.approx(math.sqrt(7))
    assert length_penalty_divisor(1, 0.5, "huggingface") == length_penalty_divisor(1, 0.5, "paper") == 1.0
    model = bench.model(4, 12)
    src_BM = bench.pad([[5, 6, 7]])
    [scored] = score_translations(model, src_BM, [[8, 9]], length_penalty=0.5, rule="huggingface")
    assert scored.score == pytest.approx(scored.log_prob / math.sqrt(3))
    options: dict[str, Any] = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "seeds": [1], "max_lengths": [6]}
    [[drawn]] = sample_search(model, src_BM, length_penalty=0.5, rule="huggingface", **options)
    assert drawn.score == pytest.approx(drawn.log_prob / math.sqrt(len(drawn.token_log_probs)))


@PROPERTY
@given(seed=SEEDS, beam=st.integers(2, 4))
def test_an_observer_gets_a_consistent_tree(bench: Any, seed: int, beam: int) -> None:
    model = bench.model(seed, 12, end=1.0)
    tree = BeamTree(beam, 1.0, "huggingface")
    steps: list[BeamStep] = []

    def observe(step: BeamStep) -> None:
        steps.append(step)
        tree.observe(step)

    options: dict[str, Any] = {"beam": beam, "length_penalty": 1.0, "rule": "huggingface", "max_lengths": [7]}
    [found] = beam_search(model, bench.pad([[5, 6]]), n_best=beam, observe=observe, **options)
    assert all(len(step.rows_R) <= beam for step in steps)
    ends = tree.finish(found)
    for one, node in zip(found, ends, strict=True):
        assert node is not None
        assert tree.nodes[node].score == pytest.approx(one.score, abs=1e-6)
        assert tree.nodes[node].state in ("finished", "best")
