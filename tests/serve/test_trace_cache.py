"""What the cache of traces keeps."""

from __future__ import annotations

import pytest

from regard.inspect.explorer import Explorer, Question
from regard.pipelines.model_translator import ModelTranslator
from regard.serve.trace_cache import CachedTrace, TraceCache


@pytest.fixture
def explorer(reverse: ModelTranslator) -> Explorer:
    return Explorer(reverse)


def test_passages_without_values_take_no_place_of_a_trace(explorer: Explorer) -> None:
    passage = explorer.passage(Question("apple baby", {}), None)
    traced = explorer.trace(passage)
    cache = TraceCache(max_traces=1, max_passages=3)
    cache.put("first", CachedTrace("0", passage, traced))
    cache.put("passage", CachedTrace("0", passage))
    assert [name for name, entry in cache.entries.items() if entry.traced is not None] == ["first"]
    cache.put("second", CachedTrace("0", passage, traced))
    assert [name for name, entry in cache.entries.items() if entry.traced is not None] == ["second"]
    assert cache.get("first") == CachedTrace("0", passage)
    cache.put("third", CachedTrace("0", passage))
    assert list(cache.entries) == ["second", "first", "third"], "the least recently used goes first"
    assert cache.get("passage") is None


def test_the_last_trace_stays_however_large(explorer: Explorer) -> None:
    passage = explorer.passage(Question("apple", {}), None)
    traced = explorer.trace(passage)
    cache = TraceCache(max_bytes=1)
    for name in ("first", "second"):
        cache.put(name, CachedTrace("0", passage, traced))
    assert [entry.traced is None for entry in cache.entries.values()] == [True, False]
