"""Interleaved timing: systems are measured in turn, so that noise of the machine affects all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TypeVar

Work = Callable[[], float]  # returns the amount of work done: tokens, operations, bytes
Result = TypeVar("Result")


def take_turns(works: Mapping[str, Callable[[], Result]], repeats: int) -> dict[str, list[tuple[float, Result]]]:
    """(seconds, result) of each work, one pair per repeat, after a warm-up."""
    taken: dict[str, list[tuple[float, Result]]] = {name: [] for name in works}
    for work in works.values():
        work()
    for _ in range(repeats):
        for name, work in works.items():
            started = time.perf_counter()
            result = work()
            taken[name].append((time.perf_counter() - started, result))
    return taken


def seconds_in_turn(works: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, list[float]]:
    return {name: [seconds for seconds, _ in turns] for name, turns in take_turns(works, repeats).items()}


def milliseconds_in_turn(works: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, list[float]]:
    return {name: [1e3 * value for value in values] for name, values in seconds_in_turn(works, repeats).items()}


def rates_in_turn(works: Mapping[str, Work], repeats: int) -> dict[str, list[float]]:
    """Work per second."""
    return {name: [done / seconds for seconds, done in turns] for name, turns in take_turns(works, repeats).items()}
