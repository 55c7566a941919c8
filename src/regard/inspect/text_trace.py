"""A trace of one text: every number that a model of one text made on the way through it.

Shapes: L length, H heads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn

from regard.core.taps import record
from regard.errors import ConfigError


@dataclass(frozen=True)
class TextTrace:
    """`values` has every recorded tap by its path, without the batch dimension."""

    ids: tuple[int, ...]
    tokens: tuple[str, ...]
    values: dict[str, np.ndarray] = field(repr=False)
    kernel: str

    def __getitem__(self, path: str) -> np.ndarray:
        return self.values[path]

    def attention(self, layer: int | None = None, head: int | None = None) -> np.ndarray:
        """weights_LL: which token looked at which, of one layer and head, or the mean over those not named."""
        paths = [path for path in self.values if path.endswith(".attention.weights")]
        if not paths:
            raise ConfigError('this trace has no attention; record the taps "layers.*.attention.weights" too')
        weights = np.stack([self.values[path] for path in paths])
        weights = weights[[layer]] if layer is not None else weights
        weights = weights[:, [head]] if head is not None else weights
        return np.asarray(weights.mean(axis=(0, 1)))


@torch.inference_mode()
def trace_text(
    model: nn.Module,
    run: Callable[[Tensor], Tensor],
    ids: Sequence[int],
    tokens: Sequence[str],
    patterns: Sequence[str] = ("*",),
) -> TextTrace:
    """Let `run` pass the ids through the model, and keep what the taps saw; those that nothing passed are left out."""
    device = next(model.parameters()).device
    with record(model, *patterns) as recording:
        run(torch.tensor([list(ids)], device=device))
    values = {path: np.asarray(recording[path][0].float().cpu()) for path in recording.paths()}
    return TextTrace(tuple(ids), tuple(tokens), values, recording.kernel)
