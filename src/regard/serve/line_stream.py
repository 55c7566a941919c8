"""An answer that is sent line by line, while a worker thread still computes it: each line is a JSON object.

An error before the first line is an ordinary error response; after it, the error is the last line. When the client
disconnects, the work is cancelled.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

from regard.inspect.wire import to_json
from regard.serve.http_error import HttpError
from regard.serve.responses import ErrorMessage, Line


class LineStream:
    """It has at most so many seconds until its last line. `cancel` ends the work in a worker thread."""

    def __init__(self, seconds: float, cancel: Callable[[], None]) -> None:
        self.loop = asyncio.get_running_loop()
        self.seconds, self.deadline = seconds, self.loop.time() + seconds
        self.queue: asyncio.Queue[bytes | None] = asyncio.Queue()  # None: the end
        self.job: asyncio.Future[None] | None = None
        self.cancel = cancel

    def send(self, value: Line) -> None:
        """Send a line; called by the worker."""
        self.loop.call_soon_threadsafe(self.queue.put_nowait, to_json(value) + b"\n")

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Start the job that sends the lines; the stream ends when it is done."""
        self.job = asyncio.ensure_future(work)
        self.job.add_done_callback(lambda _: self.queue.put_nowait(None))

    async def next(self) -> bytes | None:
        """The next line, or None if that was the last. An error of the job is raised after its last line."""
        try:
            async with asyncio.timeout_at(self.deadline):
                line = await self.queue.get()
        except TimeoutError:
            raise took_too_long(self.seconds) from None
        if line is None and self.job is not None:
            await self.job
        return line

    async def lines(
        self, line: bytes | None, describe_error: Callable[[BaseException], ErrorMessage]
    ) -> AsyncIterator[bytes]:
        """This line and those after it; if the job fails, the error is the last."""
        try:
            while line is not None:
                yield line
                try:
                    line = await self.next()
                except Exception as error:
                    yield to_json(describe_error(error)) + b"\n"
                    return
        finally:
            self.close()

    def close(self) -> None:
        self.cancel()
        if self.job is not None:
            self.job.cancel()


def took_too_long(seconds: float) -> HttpError:
    return HttpError(503, f"server busy: the answer was not ready after {seconds:g} seconds", "ask for less, or later")
