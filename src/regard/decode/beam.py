"""Beam search over a batch of sentences.

"Attention Is All You Need", section 6.1: beam 4 and length penalty α = 0.6, after Wu et al. 2016, section 7.
At each step the `beam` best continuations of a sentence are taken; those that are an EOS are finished and
the others live on, so that beam 1 is greedy search exactly. A living hypothesis is dropped as soon as it
could not enter the n best even if every token to come, up to the maximum length, had probability 1. That is
exact: it changes no result. Finished hypotheses rank before those cut at the maximum length, because what
is cut there is nearly always a loop.

Shapes: B sentences, R rows = hypotheses alive, V vocabulary, M source length, P longest prefix,
C continuations of a row, K beam, N candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.decode.constraints import allow, check_lengths, forced_now, stack_prefixes
from regard.decode.engine import Engine, EngineState
from regard.decode.hypothesis import Hypothesis, Living, penalise_length
from regard.decode.model import SearchModel, State, move_rows
from regard.decode.ranking import select_best
from regard.errors import ConfigError
from regard.text.tokenizer import BOS, EOS


@dataclass(frozen=True)
class BeamStep:
    """One step as an observer sees it: what was alive, what it could become, what it became."""

    living: Living
    log_prob_RC: Tensor  # of the best next words of each row, as many as the beam; what is forbidden has -inf
    token_RC: Tensor
    grown: Living  # the candidates that were taken, N of them
    parent_N: Tensor  # the row of `living` that each grew from
    ended_N: Tensor
    cut_N: Tensor
    rows_R: Tensor  # those of `grown` that live on, in the order of the next step's `living`


@torch.inference_mode()
def beam_search(
    model: SearchModel[State],
    src_BM: Tensor,
    *,
    beam: int,
    length_penalty: float,
    max_lengths: Tensor | Sequence[int],
    n_best: int = 1,
    no_repeat_ngram: int = 0,
    prefixes: Sequence[Sequence[int]] | None = None,
    observe: Callable[[BeamStep], None] | None = None,
) -> list[list[Hypothesis]]:
    """The `n_best` translations found for each source, best first.

    `max_lengths` bounds the tokens of each translation, prefix and EOS among them. Fewer than `n_best` come
    back only where the search met fewer; at least one always does. `observe` hears of every step.
    """
    check_options(beam, length_penalty, n_best)
    lengths = check_lengths(max_lengths, src_BM.shape[0])
    forced_BP = stack_prefixes(prefixes, lengths, src_BM.device)
    found = Found(lengths, n_best, length_penalty)
    if not lengths:
        return found.ranked()
    length_B = torch.tensor(lengths, device=src_BM.device)
    state = model.begin(src_BM, max(lengths))
    living = Living.start(len(lengths), src_BM.device)
    tokens_R = torch.full_like(living.sentence, BOS)
    for position in range(max(lengths)):
        forced_R = forced_now(forced_BP, living.sentence, position)
        words = best_words(model, tokens_R, state, living.ids, forced_R, no_repeat_ngram, beam)
        grown, parent_N = continue_rows(living, words, len(lengths), beam)
        found.add_cut(living.pick(~torch.isin(living.sentence, grown.sentence)))
        tokens_N = grown.ids[:, -1]
        ended_N = tokens_N == EOS
        found.add_finished(grown.pick(ended_N))
        cut_N = ~ended_N & (length_B[grown.sentence] == position + 1)
        found.add_cut(grown.pick(cut_N))
        rows_R = (~ended_N & ~cut_N & found.hopeful(grown)).nonzero()[:, 0]
        if observe is not None:
            observe(BeamStep(living, *words, grown, parent_N, ended_N, cut_N, rows_R))
        if rows_R.numel() == 0:
            break
        move_rows(state, parent_N[rows_R], before=len(tokens_R))
        living, tokens_R = grown.pick(rows_R), tokens_N[rows_R]
    return found.ranked()


def check_options(beam: int, length_penalty: float, n_best: int) -> None:
    if beam < 1:
        raise ConfigError(f"beam = {beam} is too small; the least is 1, which is greedy search")
    if not length_penalty >= 0:
        raise ConfigError(f"length_penalty = {length_penalty} is too small; the least is 0, which is no penalty")
    if not 1 <= n_best <= beam:
        raise ConfigError(f"n_best = {n_best} is not possible with beam = {beam}; it must be from 1 to the beam")


def best_words(
    model: SearchModel[State],
    tokens_R: Tensor,
    state: State,
    ids_RT: Tensor,
    forced_R: Tensor | None,
    no_repeat_ngram: int,
    width: int,
) -> tuple[Tensor, Tensor]:
    """(log_prob_RC, token_RC): the best next words of each row, best first, as many as `width` or as there are."""
    if isinstance(model, Engine) and isinstance(state, EngineState) and forced_R is None and not no_repeat_ngram:
        return model.best(tokens_R, state, width)
    log_probs_RV = allow(model.step(tokens_R, state), ids_RT, forced_R, no_repeat_ngram)
    return select_best(log_probs_RV, min(width, log_probs_RV.shape[1]))


def continue_rows(living: Living, words: tuple[Tensor, Tensor], sentences: int, beam: int) -> tuple[Living, Tensor]:
    """The `beam` best one-token continuations of each sentence, best first, and the row each one came from."""
    best_RC, token_RC = words
    width = best_RC.shape[1]
    sentence_R = living.sentence
    first_B = torch.searchsorted(sentence_R, torch.arange(sentences, device=sentence_R.device))
    slot_R = torch.arange(len(sentence_R), device=sentence_R.device) - first_B[sentence_R]
    total_BKC = best_RC.new_full((sentences, beam, width), -torch.inf)
    total_BKC[sentence_R, slot_R] = living.total[:, None] + best_RC
    total_BK, place_BK = select_best(total_BKC.view(sentences, beam * width), beam)
    sentence_N, rank_N = (total_BK > -torch.inf).nonzero(as_tuple=True)
    place_N = place_BK[sentence_N, rank_N]
    parent_N, choice_N = first_B[sentence_N] + place_N // width, place_N % width
    return living.extend(parent_N, token_RC[parent_N, choice_N], best_RC[parent_N, choice_N]), parent_N


class Found:
    """The n best finished hypotheses of each sentence so far, and those that were cut."""

    def __init__(self, lengths: Sequence[int], n_best: int, length_penalty: float) -> None:
        self.n_best = n_best
        self.length_penalty = length_penalty
        self.largest_divisor = [penalise_length(length, length_penalty) for length in lengths]
        self.finished: list[list[Hypothesis]] = [[] for _ in lengths]
        self.cut: list[list[Hypothesis]] = [[] for _ in lengths]
        self.worst = [-float("inf")] * len(lengths)  # the score that a newcomer must beat

    def add_finished(self, rows: Living) -> None:
        for sentence, hypothesis in rows.hypotheses(True, self.length_penalty):
            kept = self.finished[sentence] = keep_best([*self.finished[sentence], hypothesis], self.n_best)
            if len(kept) == self.n_best:
                self.worst[sentence] = kept[-1].score

    def add_cut(self, rows: Living) -> None:
        for sentence, hypothesis in rows.hypotheses(False, self.length_penalty):
            self.cut[sentence].append(hypothesis)

    def hopeful(self, rows: Living) -> Tensor:
        """hopeful_R: whether a row could still enter, were it to grow to its maximum length at no cost."""
        largest_R = rows.total.new_tensor(self.largest_divisor)[rows.sentence]
        worst_R = rows.total.new_tensor(self.worst)[rows.sentence]
        return rows.total / largest_R > worst_R

    def ranked(self) -> list[list[Hypothesis]]:
        pairs = zip(self.finished, self.cut, strict=True)
        return [[*finished, *keep_best(cut, self.n_best)][: self.n_best] for finished, cut in pairs]


def keep_best(hypotheses: list[Hypothesis], n: int) -> list[Hypothesis]:
    """The n of the highest score, highest first; of equals, the one found first."""
    return sorted(hypotheses, key=lambda hypothesis: -hypothesis.score)[:n]
