"""Beam search over a batch of sentences.

"Attention Is All You Need", section 6.1: beam 4 and length penalty α = 0.6, after Wu et al. 2016, section 7.
Each step takes the `beam` best continuations of a sentence; those that end in EOS are finished, the others stay
active, so that beam 1 is exactly greedy search. finished.py decides which hypotheses stay active and when a sentence
is done, by this rule or by that of the transformers library, under which a hypothesis that reaches the maximum length
ends there at no cost instead of being truncated.

Shapes: B sentences, R rows = active hypotheses, V vocabulary, M source length, P longest prefix,
C continuations of a row, K beam, N candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.config import BeamRule
from regard.decode.active_hypotheses import ActiveHypotheses
from regard.decode.checks import HUGGINGFACE_SUPPRESSED_IDS, SUPPRESSED_IDS, check_beam_options
from regard.decode.constraints import allow, forced_now, stack_prefixes
from regard.decode.finished import FinishedHypotheses, FullBeamFinishedHypotheses, PaperFinishedHypotheses, rank
from regard.decode.hypotheses import Hypothesis
from regard.decode.protocols import SearchModel, State, list_lengths, move_rows
from regard.decode.ranking import select_best
from regard.tokenizers.special_ids import BOS, EOS


@dataclass(frozen=True)
class BeamStep:
    """One step, as passed to an observer: the active hypotheses, their best next tokens, and the candidates taken."""

    active: ActiveHypotheses
    log_prob_RC: Tensor  # of the best next tokens of each row, at least `beam` of them; forbidden ones are -inf
    token_RC: Tensor
    extended: ActiveHypotheses  # the N candidates taken
    parent_N: Tensor  # the row of `active` that each extends
    ended_N: Tensor
    cut_N: Tensor
    rows_R: Tensor  # those of `extended` that stay active, in the order of the next step's `active`


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
    forbidden: Sequence[int] = (),
    observe: Callable[[BeamStep], None] | None = None,
) -> list[list[Hypothesis]]:
    """The `n_best` translations found for each source, best first.

    `max_lengths` limits the tokens of each translation, prefix and EOS included. Fewer than `n_best` are returned
    only where the search found fewer; there is always at least one. `forbidden` tokens are never chosen, except in a
    prefix. `observe` is called at every step.
    """
    check_beam_options(beam, length_penalty, n_best)
    lengths = list_lengths(max_lengths, src_BM.shape[0])
    forced_BP = stack_prefixes(prefixes, lengths, src_BM.device)
    full = rule == "huggingface" and beam > 1
    finished: FinishedHypotheses = (FullBeamFinishedHypotheses if full else PaperFinishedHypotheses)(
        lengths, beam if full else n_best, length_penalty, rule
    )
    candidates = 2 * beam if full else beam
    suppressed = [*(HUGGINGFACE_SUPPRESSED_IDS if rule == "huggingface" else SUPPRESSED_IDS), *forbidden]
    if not lengths:
        return []
    length_B = torch.tensor(lengths, device=src_BM.device)
    state = model.begin(src_BM, max(lengths))
    active = ActiveHypotheses.start(len(lengths), src_BM.device)
    tokens_R = torch.full_like(active.sentence, BOS)
    for position in range(max(lengths)):
        forced_R = forced_now(forced_BP, active.sentence, position)
        best = best_tokens(model, tokens_R, state, active.ids, forced_R, no_repeat_ngram, candidates, suppressed)
        if rule == "huggingface":
            best = end_at_limit(best, length_B[active.sentence] == position + 1)
        extended, parent_N = continue_rows(active, best, len(lengths), beam, candidates)
        if full:  # EOS counts only among the `beam` best; the other candidates replace hypotheses that ended
            selected_N = (extended.ids[:, -1] != EOS) | (rank(extended.sentence) < beam)
            extended, parent_N = extended.pick(selected_N), parent_N[selected_N]
        finished.add_cut(active.pick(~torch.isin(active.sentence, extended.sentence)))
        tokens_N = extended.ids[:, -1]
        ended_N = tokens_N == EOS
        cut_N = ~ended_N & (length_B[extended.sentence] == position + 1)
        rows_R = finished.update(extended, ended_N, cut_N)
        if observe is not None:
            observe(BeamStep(active, *best, extended, parent_N, ended_N, cut_N, rows_R))
        if rows_R.numel() == 0:
            break
        move_rows(state, parent_N[rows_R], before=len(tokens_R))
        active, tokens_R = extended.pick(rows_R), tokens_N[rows_R]
    return finished.ranked(n_best)


def best_tokens(
    model: SearchModel[State],
    tokens_R: Tensor,
    state: State,
    ids_RT: Tensor,
    forced_R: Tensor | None,
    no_repeat_ngram: int,
    width: int,
    suppressed: Sequence[int] = SUPPRESSED_IDS,
) -> tuple[Tensor, Tensor]:
    """(log_prob_RC, token_RC): the best next tokens of each row, best first, at most `width`."""
    log_probs_RV = allow(model.step(tokens_R, state), ids_RT, forced_R, no_repeat_ngram, suppressed)
    return select_best(log_probs_RV, min(width, log_probs_RV.shape[1]))


def end_at_limit(best: tuple[Tensor, Tensor], last_R: Tensor) -> tuple[Tensor, Tensor]:
    """The best tokens, but rows at their maximum length get EOS only, with log-probability 0."""
    best_RC, token_RC = (column.clone() for column in best)
    best_RC[last_R] = -torch.inf
    best_RC[last_R, 0], token_RC[last_R, 0] = 0.0, EOS
    return best_RC, token_RC


def continue_rows(
    active: ActiveHypotheses, best: tuple[Tensor, Tensor], sentences: int, beam: int, candidates: int
) -> tuple[ActiveHypotheses, Tensor]:
    """The best one-token continuations of each sentence, best first, and the row that each extends.

    A sentence has up to `beam` rows, and gets up to `candidates` continuations.
    """
    best_RC, token_RC = best
    width = best_RC.shape[1]
    sentence_R = active.sentence
    first_B = torch.searchsorted(sentence_R, torch.arange(sentences, device=sentence_R.device))
    slot_R = torch.arange(len(sentence_R), device=sentence_R.device) - first_B[sentence_R]
    total_BKC = best_RC.new_full((sentences, beam, width), -torch.inf)
    total_BKC[sentence_R, slot_R] = active.total[:, None] + best_RC
    total_BK, place_BK = select_best(total_BKC.view(sentences, beam * width), candidates)
    sentence_N, rank_N = (total_BK > -torch.inf).nonzero(as_tuple=True)
    place_N = place_BK[sentence_N, rank_N]
    parent_N, choice_N = first_B[sentence_N] + place_N // width, place_N % width
    return active.extend(parent_N, token_RC[parent_N, choice_N], best_RC[parent_N, choice_N]), parent_N
