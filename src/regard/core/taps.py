"""Taps: named places in a model where a value can be recorded or replaced.

A `Tap` is an identity module without parameters. Models contain a tap at every value that may be worth inspecting:

    src_embedded  tgt_embedded  q  k  v  scores  weights  head_out  attn_out  resid  normed  ffn_hidden  ffn_out
    embedded  memory  states  summary  latent  router  last  logits  global_q  global_k  global_v
    k_projected  v_projected

Without a hook, a tap costs one attribute look-up. `hook_taps` attaches hooks by pattern; a hook that returns a tensor
replaces the value (an intervention). `record` stores the values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from torch import Tensor, nn

Hook = Callable[[str, Tensor], Tensor | None]  # called with the path of the tap and its value


class Tap(nn.Module):
    """The identity, unless it has a hook."""

    def __init__(self) -> None:
        super().__init__()
        self.hook: Callable[[Tensor], Tensor] | None = None

    @property
    def hooked(self) -> bool:
        return self.hook is not None

    def forward(self, x: Tensor) -> Tensor:
        return x if self.hook is None else self.hook(x)


@dataclass
class Recording:
    """The recorded values: for each path, one tensor per pass through the tap."""

    values: dict[str, list[Tensor]] = field(default_factory=dict)
    # Only the reference kernel computes attention weights, so recording them selects it.
    kernel: str = "as configured"

    def __getitem__(self, path: str) -> Tensor:
        """The only value at `path`, or the last if there are several."""
        return self.values[path][-1]

    def paths(self) -> list[str]:
        return list(self.values)


def tap_paths(model: nn.Module) -> list[str]:
    """Every tap in the model, in the order of construction."""
    return [name for name, module in model.named_modules() if isinstance(module, Tap)]


@contextmanager
def hook_taps(model: nn.Module, hooks: Mapping[str, Hook]) -> Iterator[list[str]]:
    """Attach each hook to the taps whose path matches its pattern; detach all at the end of the block.

    Several hooks on one tap are called in order, each with the value that the previous one returned. A hook whose
    patterns match one tap several times is called there once.
    """
    taps = {name: module for name, module in model.named_modules() if isinstance(module, Tap)}
    matched: dict[str, list[Hook]] = {}
    for pattern, hook in hooks.items():
        paths = [path for path in taps if fnmatchcase(path, pattern)]
        if not paths:
            raise KeyError(f"no tap matches {pattern!r}; the taps are {', '.join(taps)}")
        for path in paths:
            of_path = matched.setdefault(path, [])
            if hook not in of_path:
                of_path.append(hook)

    def chain(path: str, functions: list[Hook], outer: Callable[[Tensor], Tensor] | None) -> Callable[[Tensor], Tensor]:
        def call_all(x: Tensor) -> Tensor:
            if outer is not None:
                x = outer(x)
            for function in functions:
                changed = function(path, x)
                x = x if changed is None else changed
            return x

        return call_all

    before = {path: taps[path].hook for path in matched}
    try:
        for path, functions in matched.items():
            taps[path].hook = chain(path, functions, before[path])
        yield list(matched)
    finally:
        for path, hook_before in before.items():
            taps[path].hook = hook_before


@contextmanager
def record(model: nn.Module, *patterns: str) -> Iterator[Recording]:
    """Store a copy of every value at the matching taps."""
    recording = Recording()

    def keep(path: str, x: Tensor) -> None:
        recording.values.setdefault(path, []).append(x.detach().clone())

    with hook_taps(model, dict.fromkeys(patterns or ("*",), keep)) as paths:
        if any(path.rpartition(".")[2] in ("scores", "weights") for path in paths):
            recording.kernel = "reference"
        yield recording
