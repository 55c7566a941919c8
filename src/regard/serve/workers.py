"""Worker threads that compute answers, so that the event loop stays free, with a short queue."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from regard.serve.http_error import HttpError

T = TypeVar("T")


class Workers:
    """At most `threads` jobs run and `queue_size` wait; further requests get a 503."""

    def __init__(self, threads: int = 2, queue_size: int = 32) -> None:
        self.pool = ThreadPoolExecutor(threads, thread_name_prefix="regard-serve")
        self.capacity = threads + queue_size
        self.busy = 0
        self.lock = threading.Lock()

    async def run(self, job: Callable[[], T]) -> T:
        """The job's result. Cancelling removes a waiting job from the queue; a running one must end by itself."""
        with self.lock:
            if self.busy >= self.capacity:
                raise HttpError(503, "server busy: too many requests are waiting", "try again in a moment")
            self.busy += 1
        try:
            future = self.pool.submit(job)
        except RuntimeError:  # the system has no thread left, or the server is stopping
            self.release(None)
            raise HttpError(503, "server busy: no thread can be started", "try again in a moment") from None
        future.add_done_callback(self.release)
        return await asyncio.wrap_future(future)

    def release(self, _: object) -> None:
        with self.lock:
            self.busy -= 1

    def close(self) -> None:
        self.pool.shutdown(wait=True, cancel_futures=True)
