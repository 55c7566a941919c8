"""A cache for the analyses of a text that several steps of a translation need: literals, quantities, negations."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TypeVar, TypeVarTuple

T = TypeVar("T")
Rest = TypeVarTuple("Rest")
_MOST_TEXTS = 4096
_LONGEST = 500  # characters; longer texts are rare, and their results are large


def cached_by_text(analyse: Callable[[str, *Rest], T]) -> Callable[[str, *Rest], T]:
    """Keep the results for the last 4,096 short texts, the first argument. Callers must not change a result."""
    cached: Callable[..., T] = functools.lru_cache(maxsize=_MOST_TEXTS)(analyse)

    def lookup(text: str, *rest: *Rest) -> T:
        return cached(text, *rest) if len(text) <= _LONGEST else analyse(text, *rest)

    return functools.update_wrapper(lookup, analyse)
