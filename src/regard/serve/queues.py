"""The queues of the server: one for each model, so that a busy model blocks neither the others nor the lists."""

from __future__ import annotations

from regard.serve.workers import Workers

QUICK_THREADS = 2
QUICK_QUEUE = 64
MODEL_QUEUE = 32


class Queues:
    """Only the event loop calls `of`."""

    def __init__(self, quick: Workers | None = None) -> None:
        self.quick = quick or Workers(QUICK_THREADS, QUICK_QUEUE)  # for what does not use a model
        self.named: dict[str, Workers] = {}

    def of(self, name: str | None) -> Workers:
        """The queue of a model, by its id, or another that has a name; None: the one for quick answers."""
        if name is None:
            return self.quick
        if name not in self.named:
            self.named[name] = Workers(threads=1, queue_size=MODEL_QUEUE)  # a model answers one request at a time
        return self.named[name]

    @property
    def busy(self) -> int:
        """The number of jobs that run or wait."""
        return self.quick.busy + sum(workers.busy for workers in self.named.values())

    def close(self) -> None:
        for workers in (self.quick, *self.named.values()):
            workers.close()
