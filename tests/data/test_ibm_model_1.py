"""The dictionary: what model 1 learns, entry by entry, and that chunks and thinning do not get in its way."""

from __future__ import annotations

import random
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data import ibm_model_1
from regard.data.ibm_model_1 import ROUNDS, Chunk, best_translations, estimate, learn_dictionary, link
from regard.data.store import PairStore, PairStoreWriter

Pairs = list[tuple[list[int], list[int]]]
SIZE = 40
SENTENCES = st.lists(st.integers(4, 11), min_size=1, max_size=5)
PAIRS = st.lists(st.tuples(SENTENCES, SENTENCES), min_size=1, max_size=8)


def store(folder: Path, pairs: Pairs) -> PairStore:
    with PairStoreWriter(folder, SIZE, with_text=False, max_tokens=99) as writer:
        writer.append([src for src, _ in pairs], [tgt for _, tgt in pairs], [])
        return writer.finish({})


def mirror_pairs(count: int, seed: int = 1) -> Pairs:
    """Each word s is always translated by 43 − s, in another order; and word 39 is everywhere, for nothing."""
    draw = random.Random(seed)
    pairs = []
    for _ in range(count):
        src = draw.sample(range(4, 39), draw.randint(2, 6))
        tgt = [43 - word for word in src]
        draw.shuffle(tgt)
        pairs.append((src, [39, *tgt]))
    return pairs


def test_an_obvious_dictionary_is_found(tmp_path: Path) -> None:
    found = learn_dictionary([store(tmp_path / "pairs", mirror_pairs(300))], SIZE, SIZE, 3, lambda text: None)
    assert [found[word][0] for word in range(4, 39)] == [43 - word for word in range(4, 39)]
    assert max(len(found[word]) for word in range(SIZE)) <= 3
    assert [len(found[word]) for word in (0, 1, 2, 3, 39)] == [0] * 5  # which no source has


def test_the_chunk_size_is_irrelevant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stores = [store(tmp_path / "one", mirror_pairs(50)), store(tmp_path / "other", mirror_pairs(30, seed=2))]
    whole = learn_dictionary(stores, SIZE, SIZE, 9, lambda text: None)
    monkeypatch.setattr(ibm_model_1, "LINKS_AT_ONCE", 40)  # one pair, or two
    cut = learn_dictionary(stores, SIZE, SIZE, 9, lambda text: None)
    assert np.array_equal(whole.starts, cut.starts)
    assert np.array_equal(whole.targets, cut.targets)


def test_a_large_corpus_is_subsampled_evenly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = mirror_pairs(900)
    links = sum((len(src) + 1) * len(tgt) for src, tgt in pairs)
    monkeypatch.setattr(ibm_model_1, "MOST_LINKS", links // 3 + 1)
    large = [store(tmp_path / "large", pairs)]
    read = [rows for rows, *_ in ibm_model_1.linked(large, SIZE)]
    assert sum(read) == 300
    found = learn_dictionary(large, SIZE, SIZE, 3, lambda text: None)
    assert [found[word][0] for word in range(4, 39)] == [43 - word for word in range(4, 39)]


@given(PAIRS)
def test_links_are_every_two_positions_of_a_pair(pairs: Pairs) -> None:
    keys, places = link([np.array(s) for s, _ in pairs], [np.array(t) for _, t in pairs], SIZE)
    expected, before = [], 0
    for src, tgt in pairs:
        expected += [(word * SIZE + tgt[j], before + j) for j in range(len(tgt)) for word in (0, *src)]
        before += len(tgt)
    assert sorted(zip(keys.tolist(), places.tolist(), strict=True)) == sorted(expected)


@given(PAIRS)
@settings(deadline=None)
def test_probabilities_equal_ibm_model_1(pairs: Pairs) -> None:
    """Against expectation-maximisation as the paper writes it, word by word."""
    keys, places = link([np.array(s) for s, _ in pairs], [np.array(t) for _, t in pairs], SIZE)
    entries, numbers = np.unique(keys, return_inverse=True)
    chunk = Chunk(numbers.astype(np.int32), places, len(pairs))
    found = estimate((entries // SIZE).astype(np.int32), [chunk], SIZE, lambda text: None)
    expected = model_1(pairs)
    for key, probability in zip(entries.tolist(), found.tolist(), strict=True):
        assert probability == pytest.approx(expected[divmod(key, SIZE)], abs=1e-4)


def model_1(pairs: Pairs) -> dict[tuple[int, int], float]:
    t: dict[tuple[int, int], float] = defaultdict(lambda: 1.0)
    for _ in range(ROUNDS):
        count: dict[tuple[int, int], float] = defaultdict(float)
        total: dict[int, float] = defaultdict(float)
        for src, tgt in pairs:
            for f in tgt:
                norm = sum(t[e, f] for e in (0, *src))
                for e in (0, *src):
                    count[e, f] += t[e, f] / norm
                    total[e] += t[e, f] / norm
        t = defaultdict(float, {(e, f): value / total[e] for (e, f), value in count.items()})
    return t


def test_the_most_probable_come_first_and_noise_is_dropped() -> None:
    source, target = np.array([5, 5, 5, 5, 6], np.int32), np.array([7, 8, 9, 10, 7], np.int32)
    probability = np.array([0.2, 0.5, 1e-6, 0.3, 1.0], np.float32)
    found = best_translations(source, target, probability, SIZE, 2)
    assert found[5].tolist() == [8, 10]
    assert found[6].tolist() == [7]
    assert best_translations(source, target, probability, SIZE, 9)[5].tolist() == [8, 10, 7]
