"""A trace of one text: the values of all taps in one forward pass of a language model or encoder.

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
        """weights_LL of one layer and head; None: the mean over all."""
        paths = [path for path in self.values if path.endswith(".attention.weights")]
        if not paths:
            raise ConfigError('this trace has no attention; record the taps "layers.*.attention.weights" too')
        weights = np.stack([self.values[path] for path in paths])
        if weights.shape[-1] != len(self.ids):
            raise ConfigError(
                "this model's attention has no weight for each token (model.attention.kind = 'linformer'): its "
                'taps "layers.*.attention.weights" have the weights of the projected keys'
            )
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
    """Pass the ids through the model with `run`, and record the taps; those that were not reached are left out."""
    device = next(model.parameters()).device
    with record(model, *patterns) as recording:
        run(torch.tensor([list(ids)], device=device))
    values = {path: np.asarray(recording[path][0].float().cpu()) for path in recording.paths()}
    return TextTrace(tuple(ids), tuple(tokens), values, recording.kernel)
