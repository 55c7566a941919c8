"""An answer that comes line by line, while a worker still makes it: each line is JSON.

Until the first line is there, an error is an ordinary refusal; after it, the error is the last line. A worker to
whom nobody listens any more is stopped at its next line.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from regard.inspect.wire import to_json


class NobodyListensError(Exception):
    """Whoever asked has gone."""


class Lines:
    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.queue: asyncio.Queue[bytes | None] = asyncio.Queue()  # None: there are no more
        self.gone = False

    def tell(self, value: Mapping[str, Any]) -> None:
        """Send a line; called by the worker."""
        if self.gone:
            raise NobodyListensError
        self.loop.call_soon_threadsafe(self.queue.put_nowait, to_json(value) + b"\n")

    def follow(self, job: asyncio.Future[None]) -> None:
        """The last line has come when the job is done."""
        job.add_done_callback(lambda _: self.queue.put_nowait(None))

    async def rest(
        self, first: bytes, job: asyncio.Future[None], told: Callable[[BaseException], Mapping[str, Any]]
    ) -> AsyncIterator[bytes]:
        """This line and those after it. `told` puts what went wrong on the way into words."""
        line: bytes | None = first
        try:
            while line is not None:
                yield line
                line = await self.queue.get()
            if failure := job.exception():
                yield to_json(told(failure)) + b"\n"
        finally:
            self.leave(job)

    def leave(self, job: asyncio.Future[None]) -> None:
        self.gone = True
        job.cancel()
