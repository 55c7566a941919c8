"""Constraints on the next token of a search: no special tokens, no repeated n-gram, and a forced prefix.

Constraints do not renormalise: the remaining log-probabilities are the model's own, so that a hypothesis found under
constraints has the log-probability that `scoring` gives it. The prefix is prefix-constrained
decoding as in Wuebker et al. 2016; n-gram blocking is Paulus et al. 2018, section 2.5.

Shapes: B sentences, R rows = active hypotheses, V vocabulary, T tokens so far, P longest prefix, N matches.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.decode.checks import SUPPRESSED_IDS, check_prefixes, non_finite_error

FREE = -1  # in a table of forced tokens: not forced


def allow(
    logits_RV: Tensor,
    ids_RT: Tensor,
    forced_R: Tensor | None,
    no_repeat_ngram: int,
    suppressed: Sequence[int] = SUPPRESSED_IDS,
) -> Tensor:
    """log_probs_RV of the model, in float32 at least, with every forbidden token at -inf."""
    wide = torch.promote_types(logits_RV.dtype, torch.float32)
    log_probs_RV = torch.log_softmax(logits_RV, dim=1, dtype=wide)
    # A single NaN or +inf among the logits makes the whole row NaN, so one column is enough.
    if log_probs_RV[:, 0].isnan().any():
        raise non_finite_error(ids_RT.shape[1] + 1)
    if forced_R is None:
        forbid(log_probs_RV, ids_RT, no_repeat_ngram, suppressed)
    else:
        # Read before tokens are forbidden: a prefix may repeat n-grams and contain UNK.
        forced_log_prob_R = log_probs_RV.gather(1, forced_R.clamp(min=0)[:, None])[:, 0]
        forbid(log_probs_RV, ids_RT, no_repeat_ngram, suppressed)
        force(log_probs_RV, forced_R, forced_log_prob_R)
    return log_probs_RV


def forbid(
    log_probs_RV: Tensor, ids_RT: Tensor, no_repeat_ngram: int, suppressed: Sequence[int] = SUPPRESSED_IDS
) -> None:
    """Set, in place, every token that must not be chosen to -inf."""
    log_probs_RV[:, list(suppressed)] = -torch.inf
    if no_repeat_ngram:
        block_repeats(log_probs_RV, ids_RT, no_repeat_ngram)


def block_repeats(log_probs_RV: Tensor, ids_RT: Tensor, n: int) -> None:
    """Forbid, in place, each token that would complete an n-gram the row already has."""
    if ids_RT.shape[1] < n:
        return
    last_R1n = ids_RT[:, None, ids_RT.shape[1] - n + 1 :]
    before_RWn = ids_RT[:, :-1].unfold(1, n - 1, 1)
    row_N, start_N = (before_RWn == last_R1n).all(dim=2).nonzero(as_tuple=True)
    log_probs_RV[row_N, ids_RT[row_N, start_N + n - 1]] = -torch.inf


def force(log_probs_RV: Tensor, forced_R: Tensor, log_prob_R: Tensor) -> None:
    """Set, in place, all but the forced token of each row that has one to -inf."""
    row_N = (forced_R != FREE).nonzero()[:, 0]
    log_probs_RV[row_N] = -torch.inf
    log_probs_RV[row_N, forced_R[row_N]] = log_prob_R[row_N]


def stack_prefixes(
    prefixes: Sequence[Sequence[int]] | None, lengths: Sequence[int], device: torch.device
) -> Tensor | None:
    """forced_BP: the forced token of each sentence at each step, FREE after its prefix; None if all are empty."""
    if prefixes is None:
        return None
    check_prefixes(prefixes, lengths)
    longest = max(map(len, prefixes), default=0)
    if longest == 0:
        return None
    rows = [[*prefix, *[FREE] * (longest - len(prefix))] for prefix in prefixes]
    return torch.tensor(rows, dtype=torch.int64, device=device)


def forced_now(forced_BP: Tensor | None, sentence_R: Tensor, position: int) -> Tensor | None:
    """forced_R: each row's forced token at this position; None once every prefix is written."""
    if forced_BP is None or position >= forced_BP.shape[1]:
        return None
    return forced_BP[sentence_R, position]
