"""The rows of the active hypotheses of a search.

Shapes: B sentences, R rows = active hypotheses, N rows selected, T tokens so far.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.config import BeamRule
from regard.decode.hypotheses import Hypothesis, length_penalty_divisor


@dataclass(frozen=True)
class ActiveHypotheses:
    """The active hypotheses, all of the same length; rows are ordered by sentence."""

    sentence: Tensor  # (R)
    ids: Tensor  # (R, T), without BOS
    log_probs: Tensor  # (R, T)
    total: Tensor  # (R), the log-probability of the row

    @classmethod
    def start(cls, sentences: int, device: torch.device) -> ActiveHypotheses:
        """One empty hypothesis per sentence."""
        return cls(
            sentence=torch.arange(sentences, device=device),
            ids=torch.empty(sentences, 0, dtype=torch.int64, device=device),
            log_probs=torch.empty(sentences, 0, device=device),
            total=torch.zeros(sentences, device=device),
        )

    def pick(self, rows_N: Tensor) -> ActiveHypotheses:
        """These rows only: their indices, or a boolean mask."""
        return ActiveHypotheses(self.sentence[rows_N], self.ids[rows_N], self.log_probs[rows_N], self.total[rows_N])

    def extend(self, rows_N: Tensor, token_N: Tensor, log_prob_N: Tensor) -> ActiveHypotheses:
        """These rows, each with one more token."""
        parents = self.pick(rows_N)
        return ActiveHypotheses(
            parents.sentence,
            torch.cat([parents.ids, token_N[:, None]], dim=1),
            torch.cat([parents.log_probs, log_prob_N[:, None]], dim=1),
            parents.total + log_prob_N,
        )

    def hypotheses(self, finished: bool, alpha: float, rule: BeamRule = "paper") -> list[tuple[int, Hypothesis]]:
        """Every row as (sentence, hypothesis); the last token of a finished one is its EOS."""
        length = self.ids.shape[1]
        divisor = length_penalty_divisor(length, alpha, rule)
        written = self.ids[:, : length - 1] if finished else self.ids
        rows = zip(
            self.sentence.tolist(),
            written.tolist(),
            self.log_probs.tolist(),
            self.total.tolist(),
            strict=True,
        )
        return [
            (sentence, Hypothesis(tuple(ids), total / divisor, total, tuple(log_probs), finished))
            for sentence, ids, log_probs, total in rows
        ]
