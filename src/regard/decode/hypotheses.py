"""A translation with its probabilities.

Score = log P(y | x) / lp(y), with lp(y) = ((5 + |y|) / 6)^α as in "Attention Is All You Need", section 6.1,
after Wu et al. 2016, section 7, equation 14. |y| counts the EOS; the coverage penalty is not used. By the rule
"huggingface", lp(y) = |y|^α.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

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
            return float(max(length, 1) ** alpha)
        case _:
            assert_never(rule)
