"""A translation with its probabilities, and the rows of the active hypotheses of a search.

Score = log P(y | x) / lp(y), with lp(y) = ((5 + |y|) / 6)^α as in "Attention Is All You Need", section 6.1,
after Wu et al. 2016, section 7, equation 14. |y| counts the EOS; the coverage penalty is not used. By the rule
"huggingface", lp(y) = |y|^α.

Shapes: B sentences, R rows = active hypotheses, N rows selected, T tokens so far.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

import torch
from torch import Tensor

from regard.config import BeamRule


@dataclass(frozen=True)
class Hypothesis:
    """One translation: ids without BOS and EOS, and the log-probability of each token."""

    ids: tuple[int, ...]
    score: float  # length-normalised
    log_prob: float  # the sum of token_log_probs
    token_log_probs: tuple[float, ...]  # one per id, and one for EOS if finished
    finished: (
        bool  # ended with EOS; false where truncated at the maximum length, or where every next token was forbidden
    )


def length_penalty_divisor(length: int, alpha: float, rule: BeamRule = "paper") -> float:
    """The divisor: 1 for a single token, growing with the length when alpha > 0."""
    match rule:
        case "paper":
            return float(((5 + length) / 6) ** alpha)
        case "huggingface":
            return float(length**alpha)
        case _:
            assert_never(rule)


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
