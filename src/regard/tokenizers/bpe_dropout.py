"""BPE-dropout (Provilkov et al. 2020): a word is merged as usual, but each merge is skipped with some probability.

SentencePiece implements it too, but its samples (version 0.2.2) differ between processes, and a resumed run must see
the same pieces. So the merges are made here, from the pieces and their ranks, with Python's random generator. Most
words skip no merge, and for those the usual pieces are reused: one random number decides which merge, if any, is the
first to be skipped.
"""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from regard.text.normalise import SPACE_MARK


@dataclass(frozen=True)
class Word:
    """A word in its usual pieces; `merges` is the number of merges that produce them."""

    ids: tuple[int, ...]
    symbols: tuple[str, ...]
    merges: int


class BpeDropout:
    """Segmentation with a BPE vocabulary: its pieces and scores by id; a higher score is merged earlier."""

    def __init__(self, pieces: Sequence[str], scores: Sequence[float], whole: Sequence[bool]) -> None:
        """`whole`: whether a piece is never merged, such as bytes and special tokens."""
        self.pieces = pieces
        self.whole = whole
        self.ids = {piece: i for i, piece in enumerate(pieces)}
        self.ranks = {piece: -scores[i] for i, piece in enumerate(pieces) if not whole[i]}
        # A vocabulary may have pieces that contain inner spaces; then the whole sentence is one unit.
        across = any(SPACE_MARK in piece[1:].lstrip(SPACE_MARK) for piece in self.ranks)
        self.starts = [not across and piece.startswith(SPACE_MARK) for piece in pieces]
        self.words: dict[tuple[int, ...], Word] = {}

    def sample(self, sentences: Sequence[Sequence[int]], p: float, seed: int) -> list[list[int]]:
        """Sample ids for each sentence, given in its usual ids; the same for the same seed, in any process."""
        draw = random.Random(seed)
        keep = math.log1p(-p)
        sampled = []
        for sentence in sentences:
            ids: list[int] = []
            for key in self.split(sentence):
                word = self.words.get(key) or self.learn(key)
                # The number of merges before the first skipped one is geometrically distributed.
                first = math.log(1.0 - draw.random()) / keep if word.merges else math.inf
                ids.extend(word.ids if first >= word.merges else self.drop(word, int(first), p, draw))
            sampled.append(ids)
        return sampled

    def split(self, sentence: Sequence[int]) -> Iterator[tuple[int, ...]]:
        """The words of a sentence: they begin at a space and are segmented independently."""
        first = 0
        for i in range(1, len(sentence)):
            if self.starts[sentence[i]]:
                yield tuple(sentence[first:i])
                first = i
        if sentence:
            yield tuple(sentence[first:])

    def learn(self, ids: tuple[int, ...]) -> Word:
        symbols: list[str] = []
        for i in ids:
            symbols.extend([self.pieces[i]] if self.whole[i] else self.pieces[i])
        word = Word(ids, tuple(symbols), len(symbols) - len(ids))
        if len(self.words) < 1_000_000:  # bounds the memory
            self.words[ids] = word
        return word

    def drop(self, word: Word, first: int, p: float, draw: random.Random) -> list[int]:
        """Segment again: `first` merges are made, the next is skipped, and each later one with probability p."""
        count = -1

        def skip() -> bool:
            nonlocal count
            count += 1
            return count == first or (count > first and draw.random() < p)

        return [self.ids[symbol] for symbol in self.merge(word.symbols, skip)]

    def merge(self, start: Sequence[str], skip: Callable[[], bool]) -> list[str]:
        """Merge adjacent symbols, the lowest rank first and the leftmost of equals, until none can be merged."""
        symbols = list(start)
        after = [*range(1, len(symbols)), -1]
        before = list(range(-1, len(symbols) - 1))
        agenda: list[tuple[float, int, int, str]] = []

        def propose(left: int, right: int) -> None:
            if left >= 0 and right >= 0:
                merged = symbols[left] + symbols[right]
                rank = self.ranks.get(merged)
                if rank is not None:
                    heapq.heappush(agenda, (rank, left, right, merged))

        for left in range(len(symbols) - 1):
            propose(left, left + 1)
        while agenda:
            _, left, right, merged = heapq.heappop(agenda)
            if after[left] != right or symbols[left] + symbols[right] != merged or skip():
                continue
            symbols[left], symbols[right] = merged, ""
            after[left] = after[right]
            if after[right] >= 0:
                before[after[right]] = left
            propose(before[left], left)
            propose(left, after[left])
        return [symbol for symbol in symbols if symbol]
