"""Taps: named places in a model where a number can be looked at, or changed.

A `Tap` is an identity without parameters. Models are written with a tap wherever a person may want to look:

    src_embedded  tgt_embedded  q  k  v  scores  weights  head_out  attn_out  resid  normed  ffn_hidden  ffn_out
    embedded  memory  states  summary  latent  router  last  logits

Nobody listening, a tap costs one attribute look-up. `listen` attaches functions by pattern; a function that
returns a tensor replaces the value (an intervention). `record` keeps what passes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from torch import Tensor, nn

Listener = Callable[[str, Tensor], Tensor | None]


class Tap(nn.Module):
    """The identity, until somebody listens."""

    def __init__(self) -> None:
        super().__init__()
        self.listener: Callable[[Tensor], Tensor] | None = None

    @property
    def heard(self) -> bool:
        return self.listener is not None

    def forward(self, x: Tensor) -> Tensor:
        return x if self.listener is None else self.listener(x)


@dataclass
class Recording:
    """What the taps saw: for each path, one tensor per time the model passed there."""

    values: dict[str, list[Tensor]] = field(default_factory=dict)
    # Attention weights exist only where attention is written out, so listening to them chooses that kernel.
    kernel: str = "as configured"

    def __getitem__(self, path: str) -> Tensor:
        """The only value at `path`, or the last if there were several."""
        return self.values[path][-1]

    def paths(self) -> list[str]:
        return list(self.values)


def tap_paths(model: nn.Module) -> list[str]:
    """Every tap in the model, in the order of construction."""
    return [name for name, module in model.named_modules() if isinstance(module, Tap)]


@contextmanager
def listen(model: nn.Module, listeners: Mapping[str, Listener]) -> Iterator[list[str]]:
    """Attach each listener to the taps whose path matches its pattern; detach on leaving.

    Several listeners on one tap are called in order, each with what the one before it returned; a listener of
    several patterns that match one tap is called there once.
    """
    taps = {name: module for name, module in model.named_modules() if isinstance(module, Tap)}
    matched: dict[str, list[Listener]] = {}
    for pattern, listener in listeners.items():
        paths = [path for path in taps if fnmatchcase(path, pattern)]
        if not paths:
            raise KeyError(f"no tap matches {pattern!r}; the taps are {', '.join(taps)}")
        for path in paths:
            heard_by = matched.setdefault(path, [])
            if listener not in heard_by:
                heard_by.append(listener)

    def chain(
        path: str, functions: list[Listener], outer: Callable[[Tensor], Tensor] | None
    ) -> Callable[[Tensor], Tensor]:
        def hear(x: Tensor) -> Tensor:
            if outer is not None:
                x = outer(x)
            for function in functions:
                changed = function(path, x)
                x = x if changed is None else changed
            return x

        return hear

    before = {path: taps[path].listener for path in matched}
    try:
        for path, functions in matched.items():
            taps[path].listener = chain(path, functions, before[path])
        yield list(matched)
    finally:
        for path, listener_before in before.items():
            taps[path].listener = listener_before


@contextmanager
def record(model: nn.Module, *patterns: str) -> Iterator[Recording]:
    """Keep a copy of everything that passes the matching taps."""
    recording = Recording()

    def keep(path: str, x: Tensor) -> None:
        recording.values.setdefault(path, []).append(x.detach().clone())

    with listen(model, dict.fromkeys(patterns or ("*",), keep)) as paths:
        if any(path.rpartition(".")[2] in ("scores", "weights") for path in paths):
            recording.kernel = "reference"
        yield recording
