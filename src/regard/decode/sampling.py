"""Sampling from the model's distribution, with temperature, top-k and top-p.

Temperature first, then top-k (Fan et al. 2018), then top-p, the nucleus (Holtzman et al. 2020,
section 3.1). Each token inverts the cumulative distribution at one uniform random number. These numbers depend
on the sentence's own seed only, so that neither the other sentences of a batch nor its size change a sample.

Shapes: B sentences, S samples = sentences · n_samples, R rows = active samples, V vocabulary,
M source length, L longest target, C candidates of a row, most probable first.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from regard.config import BeamRule
from regard.decode.active_hypotheses import ActiveHypotheses
from regard.decode.checks import SUPPRESSED_IDS, check_sampling_options
from regard.decode.constraints import allow, forced_now, stack_prefixes
from regard.decode.hypotheses import Hypothesis
from regard.decode.protocols import SearchModel, State, list_lengths, move_rows
from regard.decode.random_numbers import uniform_numbers
from regard.decode.ranking import select_best
from regard.errors import ConfigError
from regard.tokenizers.special_ids import BOS, EOS


@torch.inference_mode()
def sample_search(
    model: SearchModel[State],
    src_BM: Tensor,
    *,
    temperature: float,
    top_k: int,
    top_p: float,
    seeds: Sequence[int],
    max_lengths: Tensor | Sequence[int],
    n_samples: int = 1,
    length_penalty: float = 0.6,
    rule: BeamRule = "paper",
    no_repeat_ngram: int = 0,
    prefixes: Sequence[Sequence[int]] | None = None,
    forbidden: Sequence[int] = (),
) -> list[list[Hypothesis]]:
    """`n_samples` translations of each source, in the order sampled.

    `seeds` has one seed per sentence (see random_numbers.py). The log-probabilities are the model's own, before
    temperature, top-k and top-p; `length_penalty` affects the scores only. top_k = 0 and top_p = 1 turn them off.
    `forbidden` tokens are never chosen, except in a prefix.
    """
    check_sampling_options(temperature, top_k, top_p, n_samples)
    lengths = list_lengths(max_lengths, src_BM.shape[0])
    if len(seeds) != len(lengths):
        raise ConfigError(f"there are {len(lengths)} sentences but {len(seeds)} seeds; give one each")
    forced_BP = stack_prefixes(prefixes, lengths, src_BM.device)
    if not lengths:
        return []
    owner_S = torch.arange(len(lengths), device=src_BM.device).repeat_interleave(n_samples)
    length_S = torch.tensor(lengths, device=src_BM.device)[owner_S]
    uniform_SL = draw_uniforms(seeds, lengths, n_samples).to(src_BM.device)
    found: dict[int, Hypothesis] = {}
    state = model.begin(src_BM, max(lengths))
    move_rows(state, owner_S, before=len(lengths))
    active = ActiveHypotheses.start(len(owner_S), src_BM.device)
    tokens_R = torch.full_like(active.sentence, BOS)
    for position in range(max(lengths)):
        logits_RV = model.step(tokens_R, state)
        forced_R = forced_now(forced_BP, owner_S[active.sentence], position)
        log_probs_RV = allow(logits_RV, active.ids, forced_R, no_repeat_ngram, [*SUPPRESSED_IDS, *forbidden])
        stuck_R = log_probs_RV.amax(dim=1) == -torch.inf
        found.update(active.pick(stuck_R).hypotheses(False, length_penalty, rule))
        parent_R = (~stuck_R).nonzero()[:, 0]
        log_probs_RV = log_probs_RV[parent_R]
        uniform_R = uniform_SL[active.sentence[parent_R], position]
        tokens_R = draw_tokens(log_probs_RV, uniform_R, temperature, top_k, top_p)
        active = active.extend(parent_R, tokens_R, log_probs_RV.gather(1, tokens_R[:, None])[:, 0])
        ended_R = tokens_R == EOS
        cut_R = ~ended_R & (length_S[active.sentence] == position + 1)
        found.update(active.pick(ended_R).hypotheses(True, length_penalty, rule))
        found.update(active.pick(cut_R).hypotheses(False, length_penalty, rule))
        rows_R = (~ended_R & ~cut_R).nonzero()[:, 0]
        if rows_R.numel() == 0:
            break
        move_rows(state, parent_R[rows_R], before=len(stuck_R))
        active, tokens_R = active.pick(rows_R), tokens_R[rows_R]
    return [[found[b * n_samples + sample] for sample in range(n_samples)] for b in range(len(lengths))]


def draw_uniforms(seeds: Sequence[int], lengths: Sequence[int], n_samples: int) -> Tensor:
    """uniform_SL: one number in [0, 1) for each token that could be sampled, each sentence from its own seed."""
    positions = np.arange(max(lengths))
    rows = [uniform_numbers(seed, sample, positions) for seed in seeds for sample in range(n_samples)]
    return torch.from_numpy(np.stack(rows))


def draw_tokens(log_probs_RV: Tensor, uniform_R: Tensor, temperature: float, top_k: int, top_p: float) -> Tensor:
    """tokens_R: one token per row, by inverting the truncated distribution at `uniform_R`."""
    best_RC, token_RC = select_best(log_probs_RV.double(), top_k or log_probs_RV.shape[1])
    prob_RC = torch.softmax(best_RC / temperature, dim=1)
    prob_RC = prob_RC.masked_fill(~in_nucleus(prob_RC, top_p), 0.0)
    cumulative_RC = prob_RC.cumsum(dim=1)
    target_R1 = uniform_R[:, None].to(prob_RC.dtype) * cumulative_RC[:, -1:]
    choice_R1 = (cumulative_RC <= target_R1).sum(dim=1, keepdim=True)
    # Rounding may move the target past the last token with a probability above 0.
    last_R1 = (prob_RC > 0).sum(dim=1, keepdim=True) - 1
    return token_RC.gather(1, torch.minimum(choice_R1, last_R1))[:, 0]


def in_nucleus(prob_RC: Tensor, top_p: float) -> Tensor:
    """A mask of the fewest most probable tokens whose probabilities sum to top_p; the first is always in it."""
    if top_p >= 1:
        return torch.ones_like(prob_RC, dtype=torch.bool)
    nucleus_RC = prob_RC.cumsum(dim=1) - prob_RC < top_p
    nucleus_RC[:, 0] = True
    return nucleus_RC
