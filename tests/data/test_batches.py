"""Batches: everything once an epoch, never over budget, and the same again from any place."""

import dataclasses
import json
from collections import Counter
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.config import CorpusConfig, DataConfig, FilterConfig, TokenizerConfig
from regard.data.batches import Batch, Batches, DataPosition, collate, validation_batches
from regard.data.prepare import Prepared, prepare
from regard.data.store import PairStore, PairStoreWriter
from regard.errors import DataError
from regard.tokenizers.special_ids import BOS, EOS, PAD

Lengths = list[tuple[int, int]]
LENGTHS = st.lists(st.tuples(st.integers(1, 12), st.integers(1, 12)), min_size=1, max_size=60)


def write_store(folder: Path, lengths: Lengths, first: int = 100) -> PairStore:
    """A store in which every pair is known by the last id of its target."""
    with PairStoreWriter(folder, 60_000, with_text=False, max_tokens=256) as writer:
        src = [[50] * length for length, _ in lengths]
        tgt = [[60] * (length - 1) + [first + i] for i, (_, length) in enumerate(lengths)]
        writer.append(src, tgt, [])
        return writer.finish({})


def names(batch: Batch) -> list[int]:
    lengths = np.count_nonzero(batch.tgt_out, axis=1)
    return [int(row[length - 2]) for row, length in zip(batch.tgt_out, lengths, strict=True)]


def epoch_of(batches: Batches, epoch: int) -> list[Batch]:
    given = []
    for batch, after in batches.iterate(DataPosition(epoch)):
        given.append(batch)
        if after.epoch > epoch:
            assert after == DataPosition(epoch + 1, 0, 0)
            break
    return given


def same(one: Batch, other: Batch) -> bool:
    return all(np.array_equal(getattr(one, side), getattr(other, side)) for side in ("src", "tgt_in", "tgt_out"))


def test_collate() -> None:
    batch = collate([[5, 6], [7]], [np.array([8], np.uint16), [9, 10, 11]])
    assert batch.src.tolist() == [[5, 6, EOS], [7, EOS, PAD]]
    assert batch.tgt_in.tolist() == [[BOS, 8, PAD, PAD], [BOS, 9, 10, 11]]
    assert batch.tgt_out.tolist() == [[8, EOS, PAD, PAD], [9, 10, 11, EOS]]
    assert batch.n_tokens == 6
    assert batch.src.dtype == batch.tgt_in.dtype == batch.tgt_out.dtype == np.int64
    assert collate([[]], [[]]).src.tolist() == [[EOS]]


@settings(max_examples=60, deadline=None)
@given(LENGTHS, LENGTHS, st.integers(1, 60), st.integers(-5, 5), st.integers(1, 40), st.integers(1, 20))
def test_every_pair_once_an_epoch_within_the_budget(
    tmp_path_factory: pytest.TempPathFactory,
    one: Lengths,
    other: Lengths,
    budget: int,
    seed: int,
    pool: int,
    block: int,
) -> None:
    folder = tmp_path_factory.mktemp("stores")
    stores = [write_store(folder / "one", one), write_store(folder / "other", other, first=1000)]
    batches = Batches(stores, [1.0, 1.0], budget, seed, pool_pairs=pool, block_pairs=block)
    everything = [100 + i for i in range(len(one))] + [1000 + i for i in range(len(other))]
    for epoch in (0, 1):
        given = epoch_of(batches, epoch)
        assert sorted(name for batch in given for name in names(batch)) == everything
        for batch in given:
            rows, width = len(batch.src), max(batch.src.shape[1], batch.tgt_in.shape[1])
            assert rows == 1 or rows * width <= budget
            assert batch.tgt_in.shape == batch.tgt_out.shape


@settings(max_examples=40, deadline=None)
@given(LENGTHS, st.lists(st.sampled_from([0.0, 0.4, 1.0, 1.7, 3.0]), min_size=2, max_size=2), st.data())
def test_resuming_at_any_position(
    tmp_path_factory: pytest.TempPathFactory, lengths: Lengths, weights: list[float], data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("stores")
    stores = [write_store(folder / "one", lengths), write_store(folder / "other", [(2, 3)] * 9, first=1000)]
    batches = Batches(stores, [1.0 + weights[0], weights[1]], 30, seed=3, pool_pairs=10, block_pairs=4)
    whole = list(islice(batches.iterate(DataPosition()), 30))
    stop = data.draw(st.integers(0, 28))
    place = DataPosition(**json.loads(json.dumps(dataclasses.asdict(whole[stop][1]))))
    again = Batches(stores, [1.0 + weights[0], weights[1]], 30, seed=3, pool_pairs=10, block_pairs=4)
    for (expected, after), (batch, then) in zip(whole[stop + 1 :], again.iterate(place), strict=False):
        assert same(batch, expected)
        assert then == after


def test_weights(tmp_path: Path) -> None:
    stores = [write_store(tmp_path / str(i), [(3, 3)] * 200, first=1000 * (i + 1)) for i in range(4)]
    batches = Batches(stores, [1.0, 2.0, 0.5, 0.0], 100, seed=1, pool_pairs=100, block_pairs=25)
    half: set[int] = set()
    for epoch in range(3):
        counts = Counter(name for batch in epoch_of(batches, epoch) for name in names(batch))
        assert all(counts[1000 + i] == 1 and counts[2000 + i] == 2 and counts[4000 + i] == 0 for i in range(200))
        now = {name for name in counts if 3000 <= name < 4000}
        assert 92 <= len(now) <= 108
        assert now != half
        half = now


def test_a_small_weight_of_few_pairs_is_right_on_average(tmp_path: Path) -> None:
    stores = [write_store(tmp_path / "one", [(1, 1)]), write_store(tmp_path / "two", [(1, 1)], first=500)]
    batches = Batches(stores, [1.0, 0.25], 10, seed=1)
    seen = sum(500 in names(batch) for epoch in range(400) for batch in epoch_of(batches, epoch))
    assert 70 <= seen <= 130


def test_batches_have_little_padding(tmp_path: Path) -> None:
    """Lengths as in real text: the target is about as long as the source."""
    rng = np.random.default_rng(1)
    src = rng.gamma(6.0, 2.5, size=4000).astype(int) + 1
    tgt = np.maximum(1, src + rng.normal(0, 0.25 * src + 1).astype(int))
    store = write_store(tmp_path / "one", list(zip(src.tolist(), tgt.tolist(), strict=True)))
    given = epoch_of(Batches([store], [1.0], 1024, seed=1), 0)
    positions = sum(batch.src.size + batch.tgt_in.size for batch in given)
    tokens = sum(int((ids != PAD).sum()) for batch in given for ids in (batch.src, batch.tgt_in))
    assert tokens / positions > 0.9


def test_order_depends_on_seed_and_epoch(tmp_path: Path) -> None:
    store = write_store(tmp_path / "one", [(3, 3)] * 50)

    def order(seed: int, epoch: int) -> list[list[int]]:
        return [names(batch) for batch in epoch_of(Batches([store], [1.0], 20, seed), epoch)]

    assert order(1, 0) == order(1, 0)
    assert order(1, 0) != order(1, 1)
    assert order(1, 0) != order(2, 0)


def test_similar_lengths_go_together(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    lengths = [(int(n), int(n)) for n in rng.integers(1, 40, 3000)]
    given = epoch_of(Batches([write_store(tmp_path / "one", lengths)], [1.0], 400, seed=1), 0)
    padded = sum(batch.tgt_out.size for batch in given)
    assert sum(batch.n_tokens for batch in given) / padded > 0.9


def test_a_position_beyond_the_end_continues_with_the_next_epoch(tmp_path: Path) -> None:
    batches = Batches([write_store(tmp_path / "one", [(3, 3)] * 5)], [1.0], 100, seed=1)
    assert next(batches.iterate(DataPosition(0, 0, 99)))[1].epoch == 2
    assert next(batches.iterate(DataPosition(0, 7, 0)))[1].epoch == 2


def test_refusals(tmp_path: Path) -> None:
    store = write_store(tmp_path / "one", [(3, 3)])
    with pytest.raises(DataError, match="an epoch would have no pairs"):
        Batches([store], [0.0], 100, seed=1)
    with pytest.raises(ValueError, match="1 stores, but 2 weights"):
        Batches([store], [1.0, 1.0], 100, seed=1)
    with pytest.raises(ValueError, match="needs a tokenizer, and stores"):
        Batches([store], [1.0], 100, seed=1, sampling=0.1)


def toy(cache: Path, kind: str = "bpe") -> Prepared:
    tokenizer = TokenizerConfig(vocab_size=400, dropout=0.3, kind=kind)  # type: ignore[arg-type]
    data = DataConfig(
        train=(CorpusConfig(toy="reverse", size=150),), tokenizer=tokenizer, filters=FilterConfig(max_tokens=14)
    )
    return prepare(data, cache, lambda line: None)


@pytest.mark.parametrize(("kind", "amount"), [("bpe", 0.3), ("unigram", 0.9)])
def test_sampled_subwords(tmp_path: Path, kind: str, amount: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.data.batches.SAMPLED_AT_ONCE", 32)
    prepared = toy(tmp_path, kind)
    tokenizer, [store] = prepared.tokenizer, prepared.train

    def batches() -> Batches:
        return Batches([store], [1.0], 200, 1, tokenizer, amount, pool_pairs=64, block_pairs=32)

    def texts(given: Sequence[Batch]) -> list[str]:
        return sorted(tokenizer.decode_tgt(row.tolist()) for batch in given for row in batch.tgt_out)

    first, second = epoch_of(batches(), 0), epoch_of(batches(), 1)
    assert texts(first) == texts(second) == sorted(store.tgt_text(i) for i in range(len(store)))
    assert sum(batch.n_tokens for batch in first) > int(store.tgt.lengths().sum()) + len(store)
    assert all(len(batch.src) == 1 or batch.src.size <= 200 for batch in first)
    assert max(batch.tgt_out.shape[1] for batch in first) <= store.max_tokens + 1
    whole = list(islice(batches().iterate(DataPosition()), 20))
    resumed = islice(batches().iterate(whole[9][1]), 10)
    assert all(same(one[0], other[0]) for one, other in zip(whole[10:], resumed, strict=True))


def test_validation_batches(tmp_path: Path) -> None:
    tokenizer = toy(tmp_path).tokenizer
    pairs = [("the dog", "dog"), ("a", "b c d e f"), ("", "x"), ("tree " * 50, "tree")]
    given = validation_batches(tokenizer, pairs, 40)
    assert all(same(one, other) for one, other in zip(given, validation_batches(tokenizer, pairs, 40), strict=True))
    decoded = {
        (tokenizer.decode_src(src.tolist()), tokenizer.decode_tgt(tgt.tolist()))
        for batch in given
        for src, tgt in zip(batch.src, batch.tgt_out, strict=True)
    }
    assert decoded == {(src.strip(), tgt) for src, tgt in pairs}
    assert validation_batches(tokenizer, [], 40) == []
