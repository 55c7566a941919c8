"""What a beam search has found so far, and which of its hypotheses may live on: two rules.

paper: a living hypothesis is dropped as soon as it could not enter the n best even if every token to come, up to the
maximum length, had probability 1. That is exact: it changes no result. Finished hypotheses rank before those cut at
the maximum length, because what is cut there is nearly always a loop.

huggingface: as `generate()` of the transformers library with early_stopping = False. There are always as many living
hypotheses as the beam is wide, since twice as many candidates are looked at; a sentence is done when as many are
finished and the best of the living, divided by its length of now, is no better than the worst of them.

Shapes: N candidates of all sentences, in the order of the sentences and best first; R rows that live on.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor

from regard.config import BeamRule
from regard.decode.hypotheses import ActiveHypotheses, Hypothesis, length_penalty_divisor


class FinishedHypotheses(ABC):
    """The best finished hypotheses of each sentence so far, and those that were cut."""

    def __init__(self, lengths: Sequence[int], kept: int, length_penalty: float, rule: BeamRule) -> None:
        sentences = len(lengths)
        self.kept, self.rule = kept, rule
        self.length_penalty = length_penalty
        self.largest_divisor = [length_penalty_divisor(length, length_penalty, rule) for length in lengths]
        self.finished: list[list[Hypothesis]] = [[] for _ in range(sentences)]
        self.cut: list[list[Hypothesis]] = [[] for _ in range(sentences)]
        self.worst = [-float("inf")] * sentences  # the score that a newcomer must beat

    @abstractmethod
    def settle(self, grown: ActiveHypotheses, ended_N: Tensor, cut_N: Tensor) -> Tensor:
        """Take in what has come to an end; rows_R of `grown` that live on."""

    def add_finished(self, rows: ActiveHypotheses) -> None:
        for sentence, hypothesis in rows.hypotheses(True, self.length_penalty, self.rule):
            self.add(sentence, hypothesis)

    def add(self, sentence: int, hypothesis: Hypothesis) -> None:
        kept = self.finished[sentence] = keep_best([*self.finished[sentence], hypothesis], self.kept)
        if len(kept) == self.kept:
            self.worst[sentence] = kept[-1].score

    def add_cut(self, rows: ActiveHypotheses) -> None:
        for sentence, hypothesis in rows.hypotheses(False, self.length_penalty, self.rule):
            self.cut[sentence].append(hypothesis)

    def ranked(self, n_best: int) -> list[list[Hypothesis]]:
        pairs = zip(self.finished, self.cut, strict=True)
        return [[*finished, *keep_best(cut, n_best)][:n_best] for finished, cut in pairs]


class PaperFinishedHypotheses(FinishedHypotheses):
    """The n best are kept. Greedy search by either rule is this."""

    def settle(self, grown: ActiveHypotheses, ended_N: Tensor, cut_N: Tensor) -> Tensor:
        self.add_finished(grown.pick(ended_N))
        self.add_cut(grown.pick(cut_N))
        return (~ended_N & ~cut_N & self.hopeful(grown)).nonzero()[:, 0]

    def hopeful(self, rows: ActiveHypotheses) -> Tensor:
        """hopeful_R: whether a row could still enter, were it to grow to its maximum length at no cost."""
        largest_R = rows.total.new_tensor(self.largest_divisor)[rows.sentence]
        worst_R = rows.total.new_tensor(self.worst)[rows.sentence]
        return rows.total / largest_R > worst_R


class FullBeamFinishedHypotheses(FinishedHypotheses):
    """The rule of transformers, for beams wider than 1: as many are kept as the beam is wide."""

    def settle(self, grown: ActiveHypotheses, ended_N: Tensor, cut_N: Tensor) -> Tensor:
        self.add_finished(grown.pick(ended_N))
        self.add_cut(grown.pick(cut_N))
        living_N = (~ended_N & ~cut_N).nonzero()[:, 0]
        living_N = living_N[rank(grown.sentence[living_N]) < self.kept]
        rows = grown.pick(living_N)
        score_R = rows.total / length_penalty_divisor(rows.ids.shape[1], self.length_penalty, self.rule)
        better_R = score_R > rows.total.new_tensor(self.worst)[rows.sentence]
        # The best of a sentence speaks for all of it, and any other is no better.
        return living_N[torch.isin(rows.sentence, rows.sentence[better_R])]


def rank(sentence_N: Tensor) -> Tensor:
    """The place of each row among those of its sentence, from 0; rows stand in the order of their sentences."""
    first_N = torch.searchsorted(sentence_N, sentence_N)
    return torch.arange(len(sentence_N), device=sentence_N.device) - first_N


def keep_best(hypotheses: list[Hypothesis], n: int) -> list[Hypothesis]:
    """The n of the highest score, highest first; of equals, the one found first."""
    return sorted(hypotheses, key=lambda hypothesis: -hypothesis.score)[:n]
