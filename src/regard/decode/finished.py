"""The finished hypotheses of a beam search, and two rules for pruning the active ones.

paper: an active hypothesis is pruned as soon as it could not enter the n best even if every following token, up to the
maximum length, had probability 1. This pruning is exact: it changes no result. Finished hypotheses rank before those
truncated at the maximum length, which are nearly always repetition loops.

huggingface: as `generate()` of the transformers library with early_stopping = False. There are always `beam` active
hypotheses, selected from twice as many candidates; a sentence is done when `beam` hypotheses are finished and the best
active one, scored at its present length, is no better than the worst of them.

Shapes: N candidates of all sentences, in the order of the sentences and best first; R rows that stay active.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor

from regard.config import BeamRule
from regard.decode.active_hypotheses import ActiveHypotheses
from regard.decode.hypotheses import Hypothesis, length_penalty_divisor


class FinishedHypotheses(ABC):
    """The best finished hypotheses of each sentence so far, and the truncated ones."""

    def __init__(self, lengths: Sequence[int], capacity: int, length_penalty: float, rule: BeamRule) -> None:
        sentences = len(lengths)
        self.capacity, self.rule = capacity, rule
        self.length_penalty = length_penalty
        self.largest_divisor = [length_penalty_divisor(length, length_penalty, rule) for length in lengths]
        self.finished: list[list[Hypothesis]] = [[] for _ in range(sentences)]
        self.cut: list[list[Hypothesis]] = [[] for _ in range(sentences)]
        self.worst = [-float("inf")] * sentences  # the score that a further hypothesis must exceed

    @abstractmethod
    def update(self, extended: ActiveHypotheses, ended_N: Tensor, cut_N: Tensor) -> Tensor:
        """Retire the finished and truncated hypotheses; rows_R of `extended` that stay active."""

    def add_finished(self, rows: ActiveHypotheses) -> None:
        for sentence, hypothesis in rows.hypotheses(True, self.length_penalty, self.rule):
            self.add(sentence, hypothesis)

    def add(self, sentence: int, hypothesis: Hypothesis) -> None:
        best = self.finished[sentence] = top_hypotheses([*self.finished[sentence], hypothesis], self.capacity)
        if len(best) == self.capacity:
            self.worst[sentence] = best[-1].score

    def add_cut(self, rows: ActiveHypotheses) -> None:
        for sentence, hypothesis in rows.hypotheses(False, self.length_penalty, self.rule):
            self.cut[sentence].append(hypothesis)

    def ranked(self, n_best: int) -> list[list[Hypothesis]]:
        pairs = zip(self.finished, self.cut, strict=True)
        return [[*finished, *top_hypotheses(cut, n_best)][:n_best] for finished, cut in pairs]


class PaperFinishedHypotheses(FinishedHypotheses):
    """Stores the n best. Greedy search uses this by either rule."""

    def update(self, extended: ActiveHypotheses, ended_N: Tensor, cut_N: Tensor) -> Tensor:
        self.add_finished(extended.pick(ended_N))
        self.add_cut(extended.pick(cut_N))
        return (~ended_N & ~cut_N & self.can_enter(extended)).nonzero()[:, 0]

    def can_enter(self, rows: ActiveHypotheses) -> Tensor:
        """can_enter_R: whether a row could still enter the n best if every further token had probability 1."""
        largest_R = rows.total.new_tensor(self.largest_divisor)[rows.sentence]
        worst_R = rows.total.new_tensor(self.worst)[rows.sentence]
        return rows.total / largest_R > worst_R


class FullBeamFinishedHypotheses(FinishedHypotheses):
    """The rule of transformers, for beams wider than 1: stores as many as the beam is wide."""

    def update(self, extended: ActiveHypotheses, ended_N: Tensor, cut_N: Tensor) -> Tensor:
        self.add_finished(extended.pick(ended_N))
        self.add_cut(extended.pick(cut_N))
        active_N = (~ended_N & ~cut_N).nonzero()[:, 0]
        active_N = active_N[rank(extended.sentence[active_N]) < self.capacity]
        rows = extended.pick(active_N)
        score_R = rows.total / length_penalty_divisor(rows.ids.shape[1], self.length_penalty, self.rule)
        better_R = score_R > rows.total.new_tensor(self.worst)[rows.sentence]
        # A sentence keeps all its rows as long as its best one could enter.
        return active_N[torch.isin(rows.sentence, rows.sentence[better_R])]


def rank(sentence_N: Tensor) -> Tensor:
    """The index of each row among those of its sentence; rows are ordered by sentence."""
    first_N = torch.searchsorted(sentence_N, sentence_N)
    return torch.arange(len(sentence_N), device=sentence_N.device) - first_N


def top_hypotheses(hypotheses: list[Hypothesis], n: int) -> list[Hypothesis]:
    """The n with the highest scores, highest first; among equals, the one found first."""
    return sorted(hypotheses, key=lambda hypothesis: -hypothesis.score)[:n]
