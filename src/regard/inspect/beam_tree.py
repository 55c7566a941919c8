"""The tree of a beam search: every hypothesis it considered, and whether it was pruned or finished.

An observer of `beam_search` over one sentence. A node is a token after those of its parents. Each active row is
extended by its `beam` best tokens; of all these the search takes the `beam` best, and prunes the others.

Shapes: R active rows, C extensions of a row, N candidates taken.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch

from regard.config import BeamRule
from regard.decode.beam import BeamStep
from regard.decode.hypotheses import Hypothesis, length_penalty_divisor
from regard.tokenizers.special_ids import EOS

State = Literal["alive", "pruned", "finished", "cut", "best"]
MAX_NODES = 20_000  # beyond it, pruned nodes are only counted


@dataclass(frozen=True)
class Node:
    node: int
    parent: int | None  # None: the first token
    step: int
    id: int
    log_prob: float  # of this token
    total: float  # log-probability of all tokens so far
    score: float  # total, divided by the length penalty
    state: State


class BeamTree:
    """Pass `observe` to a beam search of one sentence, then its hypotheses to `finish`."""

    def __init__(self, beam: int, length_penalty: float, rule: BeamRule = "paper") -> None:
        self.beam, self.length_penalty, self.rule = beam, length_penalty, rule
        self.nodes: list[Node] = []
        self.left_out = 0  # pruned candidates beyond MAX_NODES
        self.row_nodes: list[int | None] = [None]  # the node of each active row

    def observe(self, step: BeamStep) -> None:
        number = step.active.ids.shape[1]
        divisor = length_penalty_divisor(number + 1, self.length_penalty, self.rule)
        taken = self.add_taken(step, number, divisor)
        self.add_pruned(step, number, divisor)
        alive = step.rows_R.tolist()
        for rank, node in enumerate(taken):
            if rank not in alive and self.nodes[node].state == "alive":
                self.nodes[node] = replace(self.nodes[node], state="pruned")  # it cannot win any more
        self.row_nodes = [taken[rank] for rank in alive]

    def add_taken(self, step: BeamStep, number: int, divisor: float) -> list[int]:
        columns = (
            step.parent_N,
            step.extended.ids[:, -1],
            step.extended.log_probs[:, -1],
            step.extended.total,
            step.cut_N,
        )
        taken = []
        for row, token, log_prob, total, cut in zip(*(column.tolist() for column in columns), strict=True):
            state: State = "finished" if token == EOS else "cut" if cut else "alive"
            taken.append(self.add(self.row_nodes[row], number, token, log_prob, total, total / divisor, state))
        return taken

    def add_pruned(self, step: BeamStep, number: int, divisor: float) -> None:
        best_RC, token_RC = step.log_prob_RC, step.token_RC
        total_RC = step.active.total[:, None] + best_RC
        known = set(zip(step.parent_N.tolist(), step.extended.ids[:, -1].tolist(), strict=True))
        for row, column in (best_RC > -torch.inf).nonzero().tolist():
            token = int(token_RC[row, column])
            if (row, token) in known:
                continue
            if len(self.nodes) >= MAX_NODES:
                self.left_out += 1
                continue
            total = float(total_RC[row, column])
            log_prob = float(best_RC[row, column])
            self.add(self.row_nodes[row], number, token, log_prob, total, total / divisor, "pruned")

    def add(
        self, parent: int | None, step: int, token: int, log_prob: float, total: float, score: float, state: State
    ) -> int:
        self.nodes.append(Node(len(self.nodes), parent, step, token, log_prob, total, score, state))
        return len(self.nodes) - 1

    def finish(self, found: list[Hypothesis]) -> list[int | None]:
        """Mark the path of the best; return the last node of each hypothesis (None: it is empty)."""
        children = {(node.parent, node.id): node.node for node in self.nodes}
        ends: list[int | None] = []
        for rank, hypothesis in enumerate(found):
            node: int | None = None
            for token in (*hypothesis.ids, *((EOS,) if hypothesis.finished else ())):
                node = children[node, token]
                if rank == 0:
                    self.nodes[node] = replace(self.nodes[node], state="best")
            ends.append(node)
        return ends
