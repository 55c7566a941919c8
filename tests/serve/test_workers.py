from __future__ import annotations

import asyncio
import threading

import pytest

from regard.serve.http_error import HttpError
from regard.serve.workers import Workers


def test_the_loop_stays_free_and_the_queue_is_bounded() -> None:
    workers = Workers(threads=1, queue_size=1)
    go = threading.Event()

    def work() -> str:
        assert go.wait(60)
        return threading.current_thread().name

    async def ask() -> None:
        waiting = [asyncio.ensure_future(workers.run(work)) for _ in range(2)]
        await asyncio.sleep(0)  # both have been handed over, and the loop is here again
        with pytest.raises(HttpError, match="server busy") as refusal:
            await workers.run(work)
        assert refusal.value.status == 503
        go.set()
        names = await asyncio.wait_for(asyncio.gather(*waiting), 60)
        assert set(names) == {"regard-serve_0"}
        assert await workers.run(lambda: "again") == "again"

    asyncio.run(ask())
    assert workers.busy == 0
    workers.close()


def test_a_cancelled_request_counts_until_its_work_is_done() -> None:
    workers = Workers(threads=1, queue_size=0)
    go = threading.Event()

    async def ask() -> None:
        left = asyncio.ensure_future(workers.run(lambda: go.wait(60)))
        await asyncio.sleep(0)
        left.cancel()
        with pytest.raises(asyncio.CancelledError):
            await left
        with pytest.raises(HttpError):
            await workers.run(lambda: None)
        go.set()

    asyncio.run(ask())
    workers.close()


def test_workers_that_are_closed_refuse_and_do_not_count() -> None:
    workers = Workers(threads=1, queue_size=0)
    workers.close()

    async def ask() -> None:
        for _ in range(3):
            with pytest.raises(HttpError, match="no thread can be started") as refusal:
                await workers.run(lambda: None)
            assert refusal.value.status == 503

    asyncio.run(ask())
    assert workers.busy == 0


def test_an_error_comes_back_and_the_place_is_free_again() -> None:
    workers = Workers(threads=1, queue_size=0)

    def fail() -> None:
        raise KeyError("mine")

    async def ask() -> None:
        for _ in range(3):
            with pytest.raises(KeyError, match="mine"):
                await workers.run(fail)

    asyncio.run(ask())
    workers.close()
