"""A trace: a sentence, its translation, and the values of all taps in one forward pass over both.

The search uses the fast engine; then one teacher-forced pass over its translation records the taps. Recorded attention
is computed by the reference kernel, and the trace says so.

Shapes: L target length and M source length, both with the end token; H heads, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from regard.core.taps import record
from regard.decode.search import pad_sources
from regard.errors import ConfigError
from regard.inspect.alignment import word_alignment
from regard.models.translation_model import TranslationModel
from regard.tokenizers.special_ids import BOS, EOS


@dataclass(frozen=True)
class Trace:
    """`values` has every recorded tap by its path, without the batch dimension."""

    src_tokens: tuple[str, ...]  # the last is the end token
    tgt_tokens: tuple[str, ...]  # the last is the end token
    probabilities: np.ndarray  # of each target token, given those before it
    values: dict[str, np.ndarray] = field(repr=False)
    kernel: str
    page: Callable[[], str] | None = field(default=None, repr=False, compare=False)  # for notebooks

    def _repr_html_(self) -> str | None:
        """A notebook shows the trace as the explorer's page."""
        return None if self.page is None else self.page()

    def __getitem__(self, path: str) -> np.ndarray:
        return self.values[path]

    def cross_attention(self, layer: int | None = None, head: int | None = None) -> np.ndarray:
        """weights_LM of one layer and head; None: the mean over all."""
        paths = [path for path in self.values if path.endswith(".cross.weights")]
        if not paths:
            raise ConfigError('this trace has no cross-attention; record the taps "decoder.*.cross.weights" too')
        weights = np.stack([self.values[path] for path in paths])
        weights = weights[[layer]] if layer is not None else weights
        weights = weights[:, [head]] if head is not None else weights
        return np.asarray(weights.mean(axis=(0, 1)))

    def alignment(self) -> list[tuple[int, int]]:
        """(source word, target word) links from the mean cross-attention."""
        return word_alignment(self.cross_attention(), self.src_tokens[:-1], self.tgt_tokens[:-1])


def join_steps(passed: Sequence[Tensor]) -> np.ndarray:
    """The values of a tap without the batch. A recurrent decoder has one per token, which become rows."""
    return np.asarray(torch.cat(list(passed), dim=-2)[0].float().cpu())


@torch.inference_mode()
def trace_translation(
    model: TranslationModel,
    src_ids: Sequence[int],
    tgt_ids: Sequence[int],
    src_tokens: Sequence[str],
    tgt_tokens: Sequence[str],
    patterns: Sequence[str] = ("*",),
) -> Trace:
    """Pass a source and its translation (ids without BOS and EOS) through the model and record the taps."""
    device = model.output.weight.device
    src_1M = pad_sources([src_ids], device)
    tgt_1L = torch.tensor([[BOS, *tgt_ids]], device=device)
    with record(model, *patterns) as recording:
        logits_LV = model(src_1M, tgt_1L)[0]
    wanted = torch.tensor([*tgt_ids, EOS], device=device)
    probabilities = torch.softmax(logits_LV.float(), dim=-1).gather(1, wanted[:, None])[:, 0]
    return Trace(
        (*src_tokens, "</s>"),
        (*tgt_tokens, "</s>"),
        probabilities.cpu().numpy(),
        {path: join_steps(recording.values[path]) for path in recording.paths()},
        recording.kernel,
    )
