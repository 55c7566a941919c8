"""Watch a search, and cancel it."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from typing import Any

from regard.errors import RegardError
from regard.kernels.bindings import Observer

Partial = dict[int, list[int]]  # the best tokens so far of each sentence of a batch, without EOS, by its index


class SearchCancelled(RegardError):  # noqa: N818
    """The search was cancelled before its end."""


class SearchControl:
    """Give it to a search. `cancel` may be called by any thread; the search looks at every step.

    `observe` is called after every step with the best tokens so far of the sentences of one batch; batches that are
    searched in parallel call it from several threads. Tokens are added, but may also change: another hypothesis may
    have become the best. An exception in `observe` cancels the search, which raises it.
    """

    def __init__(self, observe: Callable[[Partial], None] | None = None) -> None:
        self.observe = observe
        self.flag = ctypes.c_int32(0)
        self.errors: list[BaseException] = []

    def cancel(self) -> None:
        self.flag.value = 1

    def check(self) -> None:
        """Raise if the search is cancelled; for searches that are not the engine's."""
        if self.flag.value:
            self.raise_cancelled()

    def observer(self, width: int) -> Any:
        """The function that the engine calls, with `width` places per sentence."""
        return Observer() if self.observe is None else Observer(functools.partial(self.show, width))

    def show(self, width: int, sentences: int, lengths: Any, ids: Any) -> int:
        try:
            assert self.observe is not None
            self.observe({b: ids[b * width : b * width + lengths[b]] for b in range(sentences)})
        except BaseException as error:  # an exception cannot pass through C++
            self.errors.append(error)
            self.cancel()
        return int(bool(self.errors))

    def part(self, indices: Sequence[int]) -> SearchControl:
        """The control of one batch, whose sentences have these indices."""
        observe = self.observe
        part = SearchControl(
            None if observe is None else lambda partial: observe({indices[b]: ids for b, ids in partial.items()})
        )
        part.flag, part.errors = self.flag, self.errors
        return part

    def raise_cancelled(self) -> None:
        raise self.errors[0] if self.errors else SearchCancelled("the search was cancelled")
