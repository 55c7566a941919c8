"""A cache of recent traces.

A trace of a long sentence is large, so the values of older ones are dropped. Their passages are kept longer: a trace
that is requested again is computed again.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, replace

from regard.inspect.passage import Passage, TracedPassage

MAX_TRACES = 32
MAX_BYTES = 1 << 29
MAX_PASSAGES = 1024


@dataclass(frozen=True)
class CachedTrace:
    model: str  # id of the model
    passage: Passage
    traced: TracedPassage | None = None  # None: not computed, or dropped


class TraceCache:
    """Passages by name, the most recently used last."""

    def __init__(
        self, max_traces: int = MAX_TRACES, max_bytes: int = MAX_BYTES, max_passages: int = MAX_PASSAGES
    ) -> None:
        self.max_traces, self.max_bytes, self.max_passages = max_traces, max_bytes, max_passages
        self.entries: OrderedDict[str, CachedTrace] = OrderedDict()
        self.lock = threading.Lock()

    def get(self, name: str) -> CachedTrace | None:
        with self.lock:
            if name in self.entries:
                self.entries.move_to_end(name)
            return self.entries.get(name)

    def put(self, name: str, entry: CachedTrace) -> None:
        with self.lock:
            self.entries[name] = entry
            self.entries.move_to_end(name)
            while len(self.entries) > self.max_passages:
                self.entries.popitem(last=False)
            self.drop_old()

    def drop_old(self) -> None:
        """Keep the values of the last few, and always those of the very last."""
        count = size = 0
        for name in reversed(list(self.entries)):
            entry = self.entries[name]
            if entry.traced is None:
                continue
            count, size = count + 1, size + entry.traced.size
            if count > 1 and (count > self.max_traces or size > self.max_bytes):
                self.entries[name] = replace(entry, traced=None)
