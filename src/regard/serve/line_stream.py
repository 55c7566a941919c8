"""An answer that is sent line by line, while a worker thread still computes it: each line is a JSON object.

An error before the first line is an ordinary error response; after it, the error is the last line. When the client
disconnects, the worker stops at its next line.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

from regard.inspect.wire import to_json
from regard.serve.responses import ErrorMessage, Line


class ClientDisconnectedError(Exception):
    """Raised in the worker, to stop it."""


class LineStream:
    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.queue: asyncio.Queue[bytes | None] = asyncio.Queue()  # None: the end
        self.closed = False

    def send(self, value: Line) -> None:
        """Send a line; called by the worker."""
        if self.closed:
            raise ClientDisconnectedError
        self.loop.call_soon_threadsafe(self.queue.put_nowait, to_json(value) + b"\n")

    def end_with(self, job: asyncio.Future[None]) -> None:
        """The stream ends when the job is done."""
        job.add_done_callback(lambda _: self.queue.put_nowait(None))

    async def lines(
        self, first: bytes, job: asyncio.Future[None], describe_error: Callable[[BaseException], ErrorMessage]
    ) -> AsyncIterator[bytes]:
        """The first line and those after it; if the job fails, the error is the last."""
        line: bytes | None = first
        try:
            while line is not None:
                yield line
                line = await self.queue.get()
            if error := job.exception():
                yield to_json(describe_error(error)) + b"\n"
        finally:
            self.close(job)

    def close(self, job: asyncio.Future[None]) -> None:
        self.closed = True
        job.cancel()
