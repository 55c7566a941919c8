"""Beam search over a batch of sentences.

"Attention Is All You Need", section 6.1: beam 4 and length penalty α = 0.6, after Wu et al. 2016, section 7.
At each step the `beam` best continuations of a sentence are taken; those that are an EOS are finished and
the others live on, so that beam 1 is greedy search exactly. Which of them live on, and when a sentence is
done, is in found.py; so is the other rule, that of the transformers library. By that rule a hypothesis also ends
where it reaches the maximum length, at no cost, instead of being cut there.

Shapes: B sentences, R rows = hypotheses alive, V vocabulary, M source length, P longest prefix,
C continuations of a row, K beam, N candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.config import BeamRule
from regard.decode.constraints import (
    NEVER_CHOSEN,
    NEVER_CHOSEN_THERE,
    allow,
    check_lengths,
    forced_now,
    stack_prefixes,
)
from regard.decode.engine import Engine
from regard.decode.finished import FinishedHypotheses, FullBeamFinishedHypotheses, PaperFinishedHypotheses, rank
from regard.decode.hypotheses import ActiveHypotheses, Hypothesis
from regard.decode.protocols import SearchModel, State, move_rows
from regard.decode.ranking import select_best
from regard.errors import ConfigError
from regard.tokenizers.special_ids import BOS, EOS


@dataclass(frozen=True)
class BeamStep:
    """One step as an observer sees it: what was alive, what it could become, what it became."""

    living: ActiveHypotheses
    log_prob_RC: Tensor  # of the best next words of each row, at least as many as the beam; what is forbidden: -inf
    token_RC: Tensor
    grown: ActiveHypotheses  # the candidates that were taken, N of them
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
    rule: BeamRule = "paper",
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
    if isinstance(model, Engine) and lengths and rule == "paper" and not (prefixes or no_repeat_ngram or observe):
        return model.beam_search(src_BM, beam, length_penalty, lengths, n_best)
    forced_BP = stack_prefixes(prefixes, lengths, src_BM.device)
    full = rule == "huggingface" and beam > 1
    found: FinishedHypotheses = (FullBeamFinishedHypotheses if full else PaperFinishedHypotheses)(
        lengths, beam if full else n_best, length_penalty, rule
    )
    candidates = 2 * beam if full else beam
    barred = NEVER_CHOSEN_THERE if rule == "huggingface" else NEVER_CHOSEN
    if not lengths:
        return []
    length_B = torch.tensor(lengths, device=src_BM.device)
    state = model.begin(src_BM, max(lengths))
    living = ActiveHypotheses.start(len(lengths), src_BM.device)
    tokens_R = torch.full_like(living.sentence, BOS)
    for position in range(max(lengths)):
        forced_R = forced_now(forced_BP, living.sentence, position)
        words = best_tokens(model, tokens_R, state, living.ids, forced_R, no_repeat_ngram, candidates, barred)
        if rule == "huggingface":
            words = end_last(words, length_B[living.sentence] == position + 1)
        grown, parent_N = continue_rows(living, words, len(lengths), beam, candidates)
        if full:  # an end counts among the `beam` best only: the other candidates stand by for what has ended
            kept_N = (grown.ids[:, -1] != EOS) | (rank(grown.sentence) < beam)
            grown, parent_N = grown.pick(kept_N), parent_N[kept_N]
        found.add_cut(living.pick(~torch.isin(living.sentence, grown.sentence)))
        tokens_N = grown.ids[:, -1]
        ended_N = tokens_N == EOS
        cut_N = ~ended_N & (length_B[grown.sentence] == position + 1)
        rows_R = found.settle(grown, ended_N, cut_N)
        if observe is not None:
            observe(BeamStep(living, *words, grown, parent_N, ended_N, cut_N, rows_R))
        if rows_R.numel() == 0:
            break
        move_rows(state, parent_N[rows_R], before=len(tokens_R))
        living, tokens_R = grown.pick(rows_R), tokens_N[rows_R]
    return found.ranked(n_best)


def check_options(beam: int, length_penalty: float, n_best: int) -> None:
    if beam < 1:
        raise ConfigError(f"beam = {beam} is too small; the least is 1, which is greedy search")
    if not length_penalty >= 0:
        raise ConfigError(f"length_penalty = {length_penalty} is too small; the least is 0, which is no penalty")
    if not 1 <= n_best <= beam:
        raise ConfigError(f"n_best = {n_best} is not possible with beam = {beam}; it must be from 1 to the beam")


def best_tokens(
    model: SearchModel[State],
    tokens_R: Tensor,
    state: State,
    ids_RT: Tensor,
    forced_R: Tensor | None,
    no_repeat_ngram: int,
    width: int,
    barred: Sequence[int] = NEVER_CHOSEN,
) -> tuple[Tensor, Tensor]:
    """(log_prob_RC, token_RC): the best next words of each row, best first, as many as `width` or as there are."""
    log_probs_RV = allow(model.step(tokens_R, state), ids_RT, forced_R, no_repeat_ngram, barred)
    return select_best(log_probs_RV, min(width, log_probs_RV.shape[1]))


def end_last(words: tuple[Tensor, Tensor], last_R: Tensor) -> tuple[Tensor, Tensor]:
    """The words, but for the rows that have come to their last place: those end, and it costs them nothing."""
    best_RC, token_RC = (column.clone() for column in words)
    best_RC[last_R] = -torch.inf
    best_RC[last_R, 0], token_RC[last_R, 0] = 0.0, EOS
    return best_RC, token_RC


def continue_rows(
    living: ActiveHypotheses, words: tuple[Tensor, Tensor], sentences: int, beam: int, candidates: int
) -> tuple[ActiveHypotheses, Tensor]:
    """The best one-token continuations of each sentence, best first, and the row each one came from.

    A sentence has up to `beam` rows, and gets up to `candidates` continuations.
    """
    best_RC, token_RC = words
    width = best_RC.shape[1]
    sentence_R = living.sentence
    first_B = torch.searchsorted(sentence_R, torch.arange(sentences, device=sentence_R.device))
    slot_R = torch.arange(len(sentence_R), device=sentence_R.device) - first_B[sentence_R]
    total_BKC = best_RC.new_full((sentences, beam, width), -torch.inf)
    total_BKC[sentence_R, slot_R] = living.total[:, None] + best_RC
    total_BK, place_BK = select_best(total_BKC.view(sentences, beam * width), candidates)
    sentence_N, rank_N = (total_BK > -torch.inf).nonzero(as_tuple=True)
    place_N = place_BK[sentence_N, rank_N]
    parent_N, choice_N = first_B[sentence_N] + place_N // width, place_N % width
    return living.extend(parent_N, token_RC[parent_N, choice_N], best_RC[parent_N, choice_N]), parent_N
