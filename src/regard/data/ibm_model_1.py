"""Which target pieces each source piece is translated by, learnt from sentence pairs alone: IBM model 1.

Brown et al. 1993, section 4.2: every target word of a pair was made by one of its source words, or by none (their e₀),
each of which is as likely beforehand; t(target | source) is then what makes the corpus likeliest, found by
expectation-maximisation. A *link* is a source and a target position of one pair. Only words that occur in one pair have
an *entry*, a number in a sorted table. The links are what takes memory and time: a corpus that has more of
them than MOST_LINKS is thinned out evenly.

Shapes: P pairs, N links, T target positions of a chunk, E entries.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from regard.data.prepare import Progress, Say
from regard.data.store import Ids, PairStore
from regard.tokenizers.special_ids import PAD

ROUNDS = 3
MOST_LINKS = 1 << 25  # about 150,000 pairs of 15 pieces, in half a gigabyte
LINKS_AT_ONCE = 1 << 20
LEAST_PROBABLE = 1e-4  # what is rarer is chance
NONE = PAD  # the source word that is no word

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Dictionary:
    """The translations of source piece s: targets[starts[s] : starts[s + 1]], likeliest first."""

    starts: Numbers
    targets: npt.NDArray[np.int32]

    def __getitem__(self, source: int) -> npt.NDArray[np.int32]:
        return self.targets[self.starts[source] : self.starts[source + 1]]


@dataclass(frozen=True)
class Chunk:
    """The links of some pairs."""

    entry_N: npt.NDArray[np.int32]
    place_N: npt.NDArray[np.int32]  # which of the chunk's target positions
    pairs: int


def learn_dictionary(stores: Sequence[PairStore], src_size: int, tgt_size: int, most: int, say: Say) -> Dictionary:
    """At most `most` translations of each source piece."""
    key_E = find_entries(stores, tgt_size, say)
    progress = Progress(say, "numbering word pairs")
    chunks = []
    for pairs, key_N, place_N in linked(stores, tgt_size):
        chunks.append(Chunk(np.searchsorted(key_E, key_N).astype(np.int32), place_N, pairs))
        progress.add(pairs)
    source_E, target_E = (key_E // tgt_size).astype(np.int32), (key_E % tgt_size).astype(np.int32)
    del key_E
    return best_translations(source_E, target_E, estimate(source_E, chunks, src_size, say), src_size, most)


def find_entries(stores: Sequence[PairStore], tgt_size: int, say: Say) -> Numbers:
    """key_E: source · tgt_size + target of every two words that meet in a pair, in order."""
    progress = Progress(say, "looking for word pairs")
    known, fresh = np.empty(0, np.int64), []
    for pairs, key_N, _ in linked(stores, tgt_size):
        fresh.append(np.unique(key_N))
        progress.add(pairs)
        if sum(map(len, fresh)) > max(len(known), LINKS_AT_ONCE):  # now and then, so that duplicates take no room
            known, fresh = np.unique(np.concatenate([known, *fresh])), []
    return np.unique(np.concatenate([known, *fresh]))


def linked(stores: Sequence[PairStore], tgt_size: int) -> Iterator[tuple[int, Numbers, npt.NDArray[np.int32]]]:
    """(pairs, key_N, place_N) of chunk after chunk: the same each time."""
    links = sum(int(count_links(store).sum()) for store in stores)
    every = max(1, math.ceil(links / MOST_LINKS))
    for store in stores:
        row_P = np.arange(0, len(store), every)
        total_P = np.cumsum(count_links(store)[row_P])
        start = 0
        while start < len(row_P):
            before = total_P[start - 1] if start else 0
            stop = max(start + 1, int(np.searchsorted(total_P, before + LINKS_AT_ONCE, "right")))
            rows = row_P[start:stop]
            yield len(rows), *link([store.src[row] for row in rows], [store.tgt[row] for row in rows], tgt_size)
            start = stop


def count_links(store: PairStore) -> Numbers:
    counted: Numbers = (store.src.lengths() + 1) * store.tgt.lengths()
    return counted


def link(src: Sequence[Ids], tgt: Sequence[Ids], tgt_size: int) -> tuple[Numbers, npt.NDArray[np.int32]]:
    """(key_N, place_N): each target word of a pair with each source word of it, and with none."""
    none = np.array([NONE], np.int64)
    source = np.concatenate([part for row in src for part in (none, row)]).astype(np.int64)
    target = np.concatenate([none[:0], *tgt]).astype(np.int64)
    width_P, height_P = np.array([len(row) + 1 for row in src]), np.array([len(row) for row in tgt])
    count_P = width_P * height_P
    pair_N = np.repeat(np.arange(len(count_P)), count_P)
    within_N = np.arange(len(pair_N)) - (np.cumsum(count_P) - count_P)[pair_N]
    source_N = source[(np.cumsum(width_P) - width_P)[pair_N] + within_N % width_P[pair_N]]
    place_N = (np.cumsum(height_P) - height_P)[pair_N] + within_N // width_P[pair_N]
    return source_N * tgt_size + target[place_N], place_N.astype(np.int32)


def estimate(
    source_E: npt.NDArray[np.int32], chunks: Sequence[Chunk], src_size: int, say: Say
) -> npt.NDArray[np.float32]:
    """t(target | source) of every entry."""
    probability_E = np.ones(len(source_E), np.float32)
    for number in range(1, ROUNDS + 1):
        progress = Progress(say, f"learning translations of words, round {number} of {ROUNDS}")
        expected_E = np.zeros(len(source_E))
        for chunk in chunks:
            share_N = probability_E[chunk.entry_N]
            share_N /= np.bincount(chunk.place_N, share_N)[chunk.place_N]
            np.add.at(expected_E, chunk.entry_N, share_N)
            progress.add(chunk.pairs)
        total_S = np.bincount(source_E, expected_E, src_size)
        probability_E = (expected_E / total_S[source_E]).astype(np.float32)
        # What has all but vanished must not end as 0 / 0 in a pair that has nothing else.
        np.maximum(probability_E, np.finfo(np.float32).tiny, out=probability_E)
    return probability_E


def best_translations(
    source_E: npt.NDArray[np.int32],
    target_E: npt.NDArray[np.int32],
    probability_E: npt.NDArray[np.float32],
    src_size: int,
    most: int,
) -> Dictionary:
    kept_E = (probability_E >= LEAST_PROBABLE) & (source_E != NONE)
    source_E, target_E, probability_E = source_E[kept_E], target_E[kept_E], probability_E[kept_E]
    order_E = np.lexsort((-probability_E, source_E))
    source_E, target_E = source_E[order_E], target_E[order_E]
    first_S = np.searchsorted(source_E, np.arange(src_size))
    chosen_E = np.arange(len(source_E)) - first_S[source_E] < most
    counts_S = np.bincount(source_E[chosen_E], minlength=src_size)
    return Dictionary(np.concatenate([[0], np.cumsum(counts_S)]), target_E[chosen_E])
