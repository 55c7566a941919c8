"""Which keys a query sees, stated by positions in the text; and plans that compute just these pairs, chunk by chunk.

A pattern is one head's. `sees` is its definition; `pieces` and `needed` follow from it, and say how to compute it fast
and what a cache must hold. Causality is not part of a pattern: it comes with the mask.

Shapes: H heads, L query length, M memory length.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby

import torch
from torch import Tensor

from regard.core.attention.chunks import Chunk, Indices, Plan

Sees = Callable[[Tensor, Tensor], Tensor]  # query positions_L1, key positions_M → LM


@dataclass(frozen=True)
class Piece:
    """Queries, and keys among which are those that they see."""

    queries: slice
    keys: Indices
    sees: Sees


class Pattern(ABC):
    """Subclasses are frozen dataclasses: a plan is made once per length and kept."""

    @abstractmethod
    def sees(self, query: Tensor, key: Tensor) -> Tensor:
        """Whether the query at a position sees the key at a position; the two broadcast."""

    @abstractmethod
    def pieces(self, length: int, n_queries: int) -> Iterator[Piece]:
        """All pairs that are seen in a text of `length` tokens, none twice; `n_queries` suit a chunk."""

    @abstractmethod
    def needed(self, key: Tensor, length: int) -> Tensor:
        """Whether a query at `length` or later sees the key, an earlier one."""


def per_head(patterns: Sequence[Pattern]) -> list[tuple[slice, Pattern]]:
    """The heads of each pattern, neighbours together."""
    runs = [(pattern, len(list(same))) for pattern, same in groupby(patterns)]
    ends = [sum(size for _, size in runs[: i + 1]) for i in range(len(runs))]
    return [(slice(end - size, end), pattern) for (pattern, size), end in zip(runs, ends, strict=True)]


def seen(patterns: Sequence[Pattern], query_L: Tensor, key_M: Tensor, causal: bool) -> Tensor:
    """mask_HLM, or mask_1LM where all heads are alike."""
    runs = per_head(patterns)
    masks = [pattern.sees(query_L[:, None], key_M) for _, pattern in runs]
    sizes = [1] if len(runs) == 1 else [heads.stop - heads.start for heads, _ in runs]
    mask_HLM = torch.cat([mask.expand(size, -1, -1) for mask, size in zip(masks, sizes, strict=True)])
    return mask_HLM & (key_M <= query_L[:, None]) if causal else mask_HLM


@lru_cache(maxsize=32)  # the batches of a run have few lengths, and its layers few patterns
def plan_for(
    patterns: tuple[Pattern, ...], length: int, causal: bool, n_queries: int, n_keys: int, n_gathering: int = 0
) -> Plan:
    """The chunks of a whole text, of at most n_queries × n_keys pairs each.

    Keys that are no range are copied for every chunk: with `n_gathering` queries, if these are more, less often.
    """
    chunks = []
    for heads, pattern in per_head(patterns):
        for piece in pattern.pieces(length, n_queries):
            size = n_queries if isinstance(piece.keys, slice) else max(n_queries, n_gathering)
            for queries in cut(piece.queries, length, size):
                reach = keys_up_to(piece.keys, range(length)[queries][-1]) if causal else piece.keys
                for keys in cut_keys(reach, length, n_keys):
                    chunk = chunk_of(heads, queries, keys, piece.sees, length, causal)
                    if chunk is not None:
                        chunks.append(chunk)
    return Plan(chunks, repeats(chunks, len(patterns), length))


def plan_by_positions(
    patterns: Sequence[Pattern], query_L: Tensor, key_M: Tensor, causal: bool, n_queries: int, n_keys: int
) -> Plan:
    """The same where keys are missing, as in a cache: from `sees` alone, for queries and keys at any positions."""
    chunks = []
    for heads, pattern in per_head(patterns):
        for queries in cut(slice(0, len(query_L)), len(query_L), n_queries):
            mask_LM = seen([pattern], query_L[queries], key_M, causal)[0]
            for keys in cut_keys(mask_LM.any(0).nonzero().squeeze(1), len(key_M), n_keys):
                distance_LM = query_L[queries, None] - key_M[keys]
                chunks.append(Chunk(heads, queries, keys, mask_LM[:, keys], distance_LM))
    return Plan(chunks, repeats(chunks, len(patterns), len(query_L)))


def chunk_of(heads: slice, queries: slice, keys: Indices, sees: Sees, length: int, causal: bool) -> Chunk | None:
    """A chunk with the mask that it needs; None: it has no pair that is seen."""
    positions = torch.arange(length)
    query_L1, key_M = positions[queries, None], positions[keys]
    mask_LM = sees(query_L1, key_M)
    if causal:
        mask_LM = mask_LM & (key_M <= query_L1)
    if not mask_LM.any():
        return None
    return Chunk(heads, queries, keys, None if mask_LM.all() else mask_LM)


def repeats(chunks: Sequence[Chunk], n_heads: int, n_queries: int) -> bool:
    """Whether any head has a query in two chunks."""
    times_HL = torch.zeros(n_heads, n_queries, dtype=torch.int32)
    for chunk in chunks:
        times_HL[chunk.heads, chunk.queries] += 1
    return bool((times_HL > 1).any())


def cut(indices: slice, length: int, size: int) -> Iterator[slice]:
    """Parts of at most `size` indices."""
    every = range(length)[indices]
    for start in range(0, len(every), size):
        part = every[start : start + size]
        yield slice(part.start, min(part.stop, length), part.step)


def cut_keys(keys: Indices, length: int, size: int) -> Iterator[Indices]:
    """The same, of a range or of indices."""
    if isinstance(keys, Tensor):
        yield from torch.split(keys, size) if len(keys) else ()  # of nothing, torch.split makes one part
    else:
        yield from cut(keys, length, size)


def keys_up_to(keys: Indices, last: int) -> Indices:
    if isinstance(keys, Tensor):
        return keys[keys <= last]
    return slice(keys.start, min(keys.stop, last + 1), keys.step)


@dataclass(frozen=True)
class Everything(Pattern):
    """Full attention."""

    def sees(self, query: Tensor, key: Tensor) -> Tensor:
        return torch.ones_like(query - key, dtype=torch.bool)

    def pieces(self, length: int, n_queries: int) -> Iterator[Piece]:
        yield Piece(slice(0, length), slice(0, length), self.sees)

    def needed(self, key: Tensor, length: int) -> Tensor:
        return torch.ones_like(key, dtype=torch.bool)


@dataclass(frozen=True)
class Union(Pattern):
    """What any of the patterns sees, under one softmax."""

    patterns: tuple[Pattern, ...]

    def sees(self, query: Tensor, key: Tensor) -> Tensor:
        mask = self.patterns[0].sees(query, key)
        for pattern in self.patterns[1:]:
            mask = mask | pattern.sees(query, key)
        return mask

    def pieces(self, length: int, n_queries: int) -> Iterator[Piece]:
        for i, pattern in enumerate(self.patterns):
            for piece in pattern.pieces(length, n_queries):
                yield Piece(piece.queries, piece.keys, without(piece.sees, self.patterns[:i]))

    def needed(self, key: Tensor, length: int) -> Tensor:
        return torch.stack([pattern.needed(key, length) for pattern in self.patterns]).any(0)


def without(sees: Sees, patterns: Sequence[Pattern]) -> Sees:
    """What `sees` sees and none of the patterns does."""

    def rest(query: Tensor, key: Tensor) -> Tensor:
        mask = sees(query, key)
        for pattern in patterns:
            mask = mask & ~pattern.sees(query, key)
        return mask

    return rest
