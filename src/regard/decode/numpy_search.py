"""Beam search with the Transformer in numpy, one sentence at a time: what beam.py finds by the paper's rule.

Shapes: R rows = active hypotheses, V vocabulary, C continuations of a row, K beam.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from regard.config import DecodeConfig
from regard.decode.checks import (
    SUPPRESSED_IDS,
    check_beam_options,
    check_ids,
    check_lengths,
    check_prefixes,
    non_finite_error,
)
from regard.decode.hypotheses import Hypothesis, length_penalty_divisor
from regard.decode.numpy_transformer import NumpyTransformer, log_softmax
from regard.decode.shortlist import Shortlist
from regard.errors import ConfigError
from regard.tokenizers.special_ids import BOS, EOS

Ids = Sequence[int]
Floats = npt.NDArray[np.float32]


class Row(NamedTuple):
    """An active hypothesis."""

    ids: tuple[int, ...]
    log_probs: tuple[float, ...]
    total: np.float32


def numpy_search(
    model: NumpyTransformer,
    sources: Sequence[Ids],
    config: DecodeConfig,
    n_best: int = 1,
    prefixes: Sequence[Ids] | None = None,
    done: Callable[[Sequence[int]], None] = lambda indices: None,
    shortlist: Shortlist | None = None,
) -> list[list[Hypothesis]]:
    """The best hypotheses of each source (ids without EOS)."""
    if config.method != "beam" or config.beam_rule != "paper":
        raise ConfigError("in numpy, only beam search by the paper's rule is possible")
    check_beam_options(config.beam, config.length_penalty, n_best)
    prefixes = prefixes or [()] * len(sources)
    lengths = [
        int(config.max_length_ratio * len(source)) + config.max_length_extra + len(prefix)
        for source, prefix in zip(sources, prefixes, strict=True)
    ]
    if model.longest_target is not None:
        lengths = [min(length, model.longest_target) for length in lengths]
    check_lengths(lengths, len(sources))
    check_prefixes(prefixes, lengths)
    found = []
    for at, (source, prefix, length) in enumerate(zip(sources, prefixes, lengths, strict=True)):
        allowed = None if shortlist is None else shortlist.allowed([source], [prefix])
        found.append(Beam(model, config, n_best, length, prefix, allowed).run(source))
        done([at])
    return found


class Beam:
    """The search for one sentence."""

    def __init__(
        self,
        model: NumpyTransformer,
        config: DecodeConfig,
        n_best: int,
        max_length: int,
        prefix: Ids,
        allowed: npt.NDArray[np.int64] | None,
    ) -> None:
        self.model, self.config, self.n_best, self.max_length = model, config, n_best, max_length
        self.prefix, self.allowed = prefix, allowed
        self.finished: list[Hypothesis] = []
        self.cut: list[Hypothesis] = []

    def run(self, source: Ids) -> list[Hypothesis]:
        state, rows = self.model.encode(source), [Row((), (), np.float32(0))]
        tokens_R = np.array([BOS])
        for position in range(self.max_length):
            logits_RV = self.model.decode(tokens_R[:, None], state)[:, 0]
            extended, parents = self.extend(rows, self.log_probs(logits_RV, rows, position))
            if not extended:
                self.cut += [self.hypothesis(row, finished=False) for row in rows]
            active = []
            for at, row in enumerate(extended):
                if row.ids[-1] == EOS:
                    self.finished = top([*self.finished, self.hypothesis(row, finished=True)], self.n_best)
                elif position + 1 == self.max_length:
                    self.cut.append(self.hypothesis(row, finished=False))
                else:
                    active.append(at)
            active = [at for at in active if self.can_enter(extended[at])]
            if not active:
                break
            rows = [extended[at] for at in active]
            state.reorder(np.array([parents[at] for at in active]))
            tokens_R = np.array([row.ids[-1] for row in rows])
        return [*self.finished, *top(self.cut, self.n_best)][: self.n_best]

    def log_probs(self, logits_RV: Floats, rows: Sequence[Row], position: int) -> Floats:
        """The model's log-probabilities, with every forbidden token at −∞."""
        if self.allowed is not None:
            masked_V = np.ones(logits_RV.shape[1], bool)
            masked_V[self.allowed] = False
            logits_RV = np.where(masked_V, np.float32(-np.inf), logits_RV)
        log_probs_RV = log_softmax(logits_RV)
        if np.isnan(log_probs_RV[:, 0]).any():
            raise non_finite_error(position + 1)
        if position < len(self.prefix):
            forced_RV = np.full_like(log_probs_RV, -np.inf)
            forced_RV[:, self.prefix[position]] = log_probs_RV[:, self.prefix[position]]
            return forced_RV
        log_probs_RV[:, SUPPRESSED_IDS] = -np.inf
        if n := self.config.no_repeat_ngram:
            for at, row in enumerate(rows):
                log_probs_RV[at, repeating_tokens(row.ids, n)] = -np.inf
        return log_probs_RV

    def extend(self, rows: Sequence[Row], log_probs_RV: Floats) -> tuple[list[Row], list[int]]:
        """The best continuations by one token, best first, and the row that each extends."""
        width = min(self.config.beam, log_probs_RV.shape[1])
        token_RC = np.argsort(-log_probs_RV, axis=1, kind="stable")[:, :width]
        best_RC = np.take_along_axis(log_probs_RV, token_RC, axis=1)
        total_RC = np.array([row.total for row in rows], np.float32)[:, None] + best_RC
        order = np.argsort(-total_RC, axis=None, kind="stable")[: self.config.beam]
        places = [divmod(int(place), width) for place in order if total_RC.flat[place] > -np.inf]
        extended = [
            Row(
                (*rows[at].ids, int(token_RC[at, choice])),
                (*rows[at].log_probs, float(best_RC[at, choice])),
                total_RC[at, choice],
            )
            for at, choice in places
        ]
        return extended, [at for at, _ in places]

    def hypothesis(self, row: Row, finished: bool) -> Hypothesis:
        total = float(row.total)
        score = total / length_penalty_divisor(len(row.ids), self.config.length_penalty)
        return Hypothesis(row.ids[:-1] if finished else row.ids, score, total, row.log_probs, finished)

    def can_enter(self, row: Row) -> bool:
        """Whether a row could still enter the n best if every further token had probability 1."""
        if len(self.finished) < self.n_best:
            return True
        largest = length_penalty_divisor(self.max_length, self.config.length_penalty)
        return float(row.total) / largest > self.finished[-1].score


def repeating_tokens(ids: Ids, n: int) -> list[int]:
    """The tokens that would complete an n-gram which `ids` has already."""
    last = tuple(ids[len(ids) - n + 1 :])
    return [ids[at + n - 1] for at in range(len(ids) - n + 1) if tuple(ids[at : at + n - 1]) == last]


def top(hypotheses: Sequence[Hypothesis], n: int) -> list[Hypothesis]:
    """The n with the highest scores, highest first; among equals, the one found first."""
    return sorted(hypotheses, key=lambda hypothesis: -hypothesis.score)[:n]


def numpy_scores(
    model: NumpyTransformer,
    sources: Sequence[Ids],
    translations: Sequence[Ids],
    config: DecodeConfig,
    done: Callable[[int], None] = lambda count: None,
) -> list[Hypothesis]:
    """Each given translation (ids without BOS and EOS) with its log-probabilities, as a finished hypothesis."""
    scored = []
    for number, (source, ids) in enumerate(zip(sources, translations, strict=True), start=1):
        check_ids(ids, f"translation {number}")
        logits_LV = model.decode(np.array([[BOS, *ids]]), model.encode(source))[0]
        wanted = [*ids, EOS]
        log_probs = log_softmax(logits_LV)[np.arange(len(wanted)), wanted]
        if np.isnan(log_probs).any():
            raise non_finite_error(int(np.isnan(log_probs).argmax()) + 1)
        tokens = tuple(map(float, log_probs))
        score = sum(tokens) / length_penalty_divisor(len(tokens), config.length_penalty, config.beam_rule)
        scored.append(Hypothesis(tuple(ids), score, sum(tokens), tokens, finished=True))
        done(1)
    return scored
