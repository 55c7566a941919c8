"""A few threads that do the work, so that the event loop is always free to answer; and a short queue before them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from regard.serve.http_error import HttpError

T = TypeVar("T")


class Workers:
    """At most `threads` at work and `waiting` before them; who comes then is sent away with a 503."""

    def __init__(self, threads: int = 2, waiting: int = 32) -> None:
        self.pool = ThreadPoolExecutor(threads, thread_name_prefix="regard-serve")
        self.most = threads + waiting
        self.busy = 0
        self.lock = threading.Lock()

    async def do(self, work: Callable[[], T]) -> T:
        """What the work gives. Who stops waiting leaves the queue; what has begun is finished all the same."""
        with self.lock:
            if self.busy >= self.most:
                raise HttpError(503, "too much is being asked at once", "wait a moment and ask again")
            self.busy += 1
        future = self.pool.submit(work)
        future.add_done_callback(self.one_less)
        return await asyncio.wrap_future(future)

    def one_less(self, _: object) -> None:
        with self.lock:
            self.busy -= 1

    def close(self) -> None:
        self.pool.shutdown(wait=True, cancel_futures=True)
