"""The traces of late, kept to be asked about.

A trace of a long sentence is large, so the numbers of older ones are dropped; what they were made from is kept
longer, and whoever still asks about one gets it made again.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass

from regard.inspect.explorer import Passage
from regard.inspect.trace import Trace

MOST_TRACES = 32
MOST_BYTES = 1 << 29
MOST_PASSAGES = 1024


@dataclass(frozen=True)
class Kept:
    model: str
    passage: Passage
    trace: Trace | None  # None: dropped

    @property
    def size(self) -> int:
        return 0 if self.trace is None else sum(value.nbytes for value in self.trace.values.values())


class Traces:
    """Passages by name, the one last asked for at the end."""

    def __init__(
        self, most_traces: int = MOST_TRACES, most_bytes: int = MOST_BYTES, most_passages: int = MOST_PASSAGES
    ) -> None:
        self.most_traces, self.most_bytes, self.most_passages = most_traces, most_bytes, most_passages
        self.kept: OrderedDict[str, Kept] = OrderedDict()
        self.lock = threading.Lock()

    def get(self, name: str) -> Kept | None:
        with self.lock:
            if name in self.kept:
                self.kept.move_to_end(name)
            return self.kept.get(name)

    def put(self, name: str, kept: Kept) -> None:
        with self.lock:
            self.kept[name] = kept
            self.kept.move_to_end(name)
            while len(self.kept) > self.most_passages:
                self.kept.popitem(last=False)
            self.drop_old()

    def drop_old(self) -> None:
        """Keep the numbers of the last few, and always those of the very last."""
        count = size = 0
        for name in reversed(list(self.kept)):
            one = self.kept[name]
            if one.trace is None:
                continue
            count, size = count + 1, size + one.size
            if count > 1 and (count > self.most_traces or size > self.most_bytes):
                self.kept[name] = Kept(one.model, one.passage, None)
