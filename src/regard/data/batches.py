"""Batches of sentences of similar length within a token budget, in a random order that can be resumed at any position.

Pairs are read in blocks of consecutive pairs. An epoch visits all blocks of all corpora in random order; a few visits
form a pool, which is shuffled, sorted by length and cut into batches (the paper, section 5.1), whose order is shuffled
again. Only one pool is in memory, however large the corpora are. All randomness is derived from (seed, epoch, pool), so
a `DataPosition` is enough to resume a run exactly.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from regard.data.store import PairStore
from regard.errors import DataError
from regard.tokenizers.pair import TokenizerPair
from regard.tokenizers.special_ids import BOS, EOS, PAD

SAMPLED_AT_ONCE = 10_000

IdRow = Sequence[int] | npt.NDArray[Any]
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class DataPosition:
    """The position of the next batch."""

    epoch: int = 0
    pool: int = 0
    batch: int = 0


@dataclass
class Batch:
    """Ids, padded at the right: src [B, M] ends in EOS; tgt_in [B, L] begins with BOS; tgt_out [B, L] ends in EOS."""

    src: Numbers
    tgt_in: Numbers
    tgt_out: Numbers

    @property
    def n_tokens(self) -> int:
        return int(np.count_nonzero(self.tgt_out != PAD))


def collate(src_ids: Sequence[IdRow], tgt_ids: Sequence[IdRow]) -> Batch:
    """One batch of the given pairs."""
    rows = len(src_ids)
    src = np.full((rows, _width(src_ids)), PAD, np.int64)
    tgt_in = np.full((rows, _width(tgt_ids)), PAD, np.int64)
    tgt_out = np.full_like(tgt_in, PAD)
    for row, (source, target) in enumerate(zip(src_ids, tgt_ids, strict=True)):
        src[row, : len(source)] = source
        src[row, len(source)] = EOS
        tgt_in[row, 0] = BOS
        tgt_in[row, 1 : len(target) + 1] = target
        tgt_out[row, : len(target)] = target
        tgt_out[row, len(target)] = EOS
    return Batch(src, tgt_in, tgt_out)


def _width(rows: Sequence[IdRow]) -> int:
    return max(map(len, rows), default=0) + 1


class _Visit(NamedTuple):
    """A selection of `pairs` pairs from those between `start` and `stop` of a store."""

    store: int
    start: int
    stop: int
    pairs: int


@dataclass
class _Pool:
    """The pairs of a pool, and its batches."""

    src: Sequence[IdRow]
    tgt: Sequence[IdRow]
    batches: list[Numbers]


class _StoredRows(Sequence[IdRow]):
    """Rows of several stores, read on access."""

    def __init__(self, columns: Sequence[Any], store: Numbers, row: Numbers) -> None:
        self._columns = columns
        self._store = store
        self._row = row

    def __len__(self) -> int:
        return len(self._row)

    def __getitem__(self, index: Any) -> Any:
        return self._columns[self._store[index]][int(self._row[index])]


class Batches:
    """An endless stream of batches over weighted corpora.

    `weights`: how often each pair of a corpus occurs in an epoch; 0.5 is a random half of them. `sampling`: above 0,
    each epoch has new segmentations, sampled by `tokenizer` from the texts in the stores.
    """

    def __init__(
        self,
        stores: Sequence[PairStore],
        weights: Sequence[float],
        batch_tokens: int,
        seed: int,
        tokenizer: TokenizerPair | None = None,
        sampling: float = 0.0,
        pool_pairs: int = 1 << 18,
        block_pairs: int = 1 << 14,
    ) -> None:
        if len(stores) != len(weights):
            raise ValueError(f"{len(stores)} stores, but {len(weights)} weights")
        if sum(len(store) * weight for store, weight in zip(stores, weights, strict=True)) < 1:
            raise DataError("an epoch would have no pairs: raise the weight of a training corpus that is not empty")
        if sampling > 0 and (tokenizer is None or not all(store.has_text for store in stores)):
            raise ValueError("subword sampling needs a tokenizer, and stores that contain the texts")
        self._stores = list(stores)
        self._weights = list(weights)
        self._batch_tokens = batch_tokens
        self._seed = seed % 2**63
        self._tokenizer = tokenizer
        self._sampling = sampling
        self._pool_pairs = pool_pairs
        self._block_pairs = block_pairs

    @property
    def tokens_per_epoch(self) -> float:
        """Target tokens, including EOS; approximate with subword sampling."""
        pairs = zip(self._stores, self._weights, strict=True)
        return sum((store.tgt.total + len(store)) * weight for store, weight in pairs)

    def iterate(self, place: DataPosition) -> Iterator[tuple[Batch, DataPosition]]:
        """Every batch from `place` on, each with the position after it."""
        while True:
            plan = self._plan(place.epoch)
            first = place.batch
            for number in range(place.pool, len(plan)):
                pool = self._pool(plan[number], place.epoch, number)
                for index in range(first, len(pool.batches)):
                    chosen = pool.batches[index]
                    batch = collate([pool.src[i] for i in chosen], [pool.tgt[i] for i in chosen])
                    yield batch, _after(place.epoch, number, index, len(plan), len(pool.batches))
                first = 0
            place = DataPosition(place.epoch + 1)

    def _plan(self, epoch: int) -> list[list[_Visit]]:
        """The pools of an epoch, none of them empty."""
        rng = np.random.default_rng([0, self._seed, epoch])
        visits = []
        for index, (store, weight) in enumerate(zip(self._stores, self._weights, strict=True)):
            for start in range(0, len(store), self._block_pairs):
                stop = min(start + self._block_pairs, len(store))
                size = stop - start
                visits += [_Visit(index, start, stop, size)] * int(weight)
                # Rounded up or down at random, so that the mean over epochs is right for small fractions too.
                part = int(size * (weight % 1) + rng.random())
                if part:
                    visits.append(_Visit(index, start, stop, part))
        shuffled = [visits[i] for i in rng.permutation(len(visits))]
        totals = accumulate((visit.pairs for visit in shuffled), initial=0)
        pools: dict[int, list[_Visit]] = {}
        for visit, before in zip(shuffled, totals, strict=False):
            pools.setdefault(before // self._pool_pairs, []).append(visit)
        return list(pools.values())

    def _pool(self, visits: Sequence[_Visit], epoch: int, number: int) -> _Pool:
        rng = np.random.default_rng([1, self._seed, epoch, number])
        rows = []
        for visit in visits:
            chosen = np.arange(visit.start, visit.stop)
            if visit.pairs < len(chosen):
                chosen = np.sort(rng.choice(chosen, visit.pairs, replace=False))
            rows.append(chosen)
        store = np.repeat([visit.store for visit in visits], [visit.pairs for visit in visits])
        row = np.concatenate(rows)
        src: Sequence[IdRow] = _StoredRows([store.src for store in self._stores], store, row)
        tgt: Sequence[IdRow] = _StoredRows([store.tgt for store in self._stores], store, row)
        if self._sampling > 0:
            src, tgt = self._sampled(store, row, src, tgt, rng)
            src_lengths, tgt_lengths = (np.fromiter(map(len, side), np.int64, len(side)) for side in (src, tgt))
        else:
            src_lengths = self._lengths(visits, rows, "src")
            tgt_lengths = self._lengths(visits, rows, "tgt")
        return _Pool(src, tgt, self._bucket(src_lengths, tgt_lengths, rng))

    def _lengths(self, visits: Sequence[_Visit], rows: Sequence[Numbers], side: str) -> Numbers:
        return np.concatenate(
            [
                getattr(self._stores[visit.store], side).lengths(visit.start, visit.stop)[chosen - visit.start]
                for visit, chosen in zip(visits, rows, strict=True)
            ]
        )

    def _sampled(
        self, store: Numbers, row: Numbers, src: Sequence[IdRow], tgt: Sequence[IdRow], rng: np.random.Generator
    ) -> tuple[list[IdRow], list[IdRow]]:
        """New segmentations of the texts; the stored one if the new one is longer than the filters allow."""
        assert self._tokenizer is not None
        drawn_src: list[IdRow] = []
        drawn_tgt: list[IdRow] = []
        for start in range(0, len(row), SAMPLED_AT_ONCE):
            stop = start + SAMPLED_AT_ONCE
            part = [(self._stores[s], r) for s, r in zip(store[start:stop], row[start:stop].tolist(), strict=True)]
            src_seed, tgt_seed = (int(number) for number in rng.integers(0, 2**32, 2))
            sources = self._tokenizer.sample_src([s.src_text(r) for s, r in part], self._sampling, src_seed)
            targets = self._tokenizer.sample_tgt([s.tgt_text(r) for s, r in part], self._sampling, tgt_seed)
            for i, ((pair_store, _), source, target) in enumerate(zip(part, sources, targets, strict=True), start):
                fits = max(len(source), len(target)) <= pair_store.max_tokens
                drawn_src.append(np.array(source, np.int32) if fits else src[i])
                drawn_tgt.append(np.array(target, np.int32) if fits else tgt[i])
        return drawn_src, drawn_tgt

    def _bucket(self, src_lengths: Numbers, tgt_lengths: Numbers, rng: np.random.Generator) -> list[Numbers]:
        batches = cut_to_budget(
            alike_together(src_lengths, tgt_lengths, rng), np.maximum(src_lengths, tgt_lengths) + 1, self._batch_tokens
        )
        return [batches[i] for i in rng.permutation(len(batches))]


def _after(epoch: int, pool: int, batch: int, pools: int, batches: int) -> DataPosition:
    if batch + 1 < batches:
        return DataPosition(epoch, pool, batch + 1)
    return DataPosition(epoch, pool + 1) if pool + 1 < pools else DataPosition(epoch + 1)


def alike_together(src_lengths: Numbers, tgt_lengths: Numbers, rng: np.random.Generator | None = None) -> Numbers:
    """An order in which neighbours have similar lengths: by the longer side, which the budget counts, then by the
    difference of both, alternately ascending and descending, so that it is similar where the length changes.

    With `rng`, ties are broken at random, and noise mixes pairs of slightly different lengths.
    """
    size = len(src_lengths)
    longer, difference = np.maximum(src_lengths, tgt_lengths), src_lengths - tgt_lengths
    chance = np.zeros(size) if rng is None else rng.random(size)
    if rng is not None:
        difference = difference + rng.integers(0, 2, size)
    return np.lexsort((chance, np.where(longer % 2 == 0, difference, -difference), longer))


def cut_to_budget(order: Numbers, widths: Numbers, batch_tokens: int) -> list[Numbers]:
    """Cut `order` into runs with rows × largest width ≤ batch_tokens; a pair over the budget is a run of its own."""
    cuts = []
    start, widest = 0, 0
    for at, width in enumerate(widths[order].tolist()):
        widest = max(widest, width)
        if at > start and (at + 1 - start) * widest > batch_tokens:
            cuts.append(at)
            start, widest = at, width
    return np.split(order, cuts)


def validation_batches(tokenizer: TokenizerPair, pairs: Sequence[tuple[str, str]], batch_tokens: int) -> list[Batch]:
    """All pairs once, sorted by length: the same batches every time."""
    if not pairs:
        return []
    src = tokenizer.encode_src([pair[0] for pair in pairs])
    tgt = tokenizer.encode_tgt([pair[1] for pair in pairs])
    src_lengths = np.array([len(ids) for ids in src])
    tgt_lengths = np.array([len(ids) for ids in tgt])
    widths = np.maximum(src_lengths, tgt_lengths) + 1
    runs = cut_to_budget(alike_together(src_lengths, tgt_lengths), widths, batch_tokens)
    return [collate([src[i] for i in run], [tgt[i] for i in run]) for run in runs]
