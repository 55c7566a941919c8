"""The tree of a search: observing does not change the search, and the tree is complete."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

from regard.config import DecodeConfig
from regard.decode.hypotheses import length_penalty_divisor
from regard.decode.search import search
from regard.inspect import beam_tree
from regard.inspect.beam_tree import BeamTree
from regard.pipelines.model_translator import ModelTranslator
from regard.tokenizers.special_ids import EOS

SOURCE = "apple baby bird blue"


def grow(translator: ModelTranslator, beam: int, **options: float) -> tuple[BeamTree, list[list[int]]]:
    how = DecodeConfig(beam=beam, **options)  # type: ignore[arg-type]
    tree = BeamTree(beam, how.length_penalty)
    ids = translator.tokenizer.encode_src([SOURCE])
    [plain] = search(translator.model, ids, how, translator.device, beam)
    [found] = search(translator.model, ids, how, translator.device, beam, observe=tree.observe)
    assert found == plain
    ends = tree.finish(found)
    roads = []
    for hypothesis, end in zip(found, ends, strict=True):
        assert end is not None
        road = road_to(tree, end)
        assert [tree.nodes[n].id for n in road] == [*hypothesis.ids, *[EOS] * hypothesis.finished]
        assert [tree.nodes[n].log_prob for n in road] == pytest.approx(hypothesis.token_log_probs)
        assert tree.nodes[end].total == pytest.approx(hypothesis.log_prob)
        assert tree.nodes[end].score == pytest.approx(hypothesis.score)
        roads.append(road)
    return tree, roads


def road_to(tree: BeamTree, node: int | None) -> list[int]:
    road: list[int] = []
    while node is not None:
        road.insert(0, node)
        node = tree.nodes[node].parent
    return road


@pytest.mark.parametrize("beam", [1, 2, 4])
def test_every_candidate_is_there_once(reverse: ModelTranslator, beam: int) -> None:
    tree, roads = grow(reverse, beam)
    assert [node.node for node in tree.nodes] == list(range(len(tree.nodes)))
    assert len({(node.parent, node.id) for node in tree.nodes}) == len(tree.nodes)
    children = Counter(node.parent for node in tree.nodes)
    assert set(children.values()) == {beam}  # what is alive is continued with its `beam` best
    assert all(tree.nodes[n].state in ("alive", "best") for n in children if n is not None)
    taken = Counter(node.step for node in tree.nodes if node.state != "pruned")
    assert max(taken.values()) <= beam
    for node in tree.nodes:
        before = 0.0 if node.parent is None else tree.nodes[node.parent].total
        assert node.total == pytest.approx(before + node.log_prob, abs=1e-4)
        assert node.score == pytest.approx(node.total / length_penalty_divisor(node.step + 1, 0.6))
        assert node.step == (0 if node.parent is None else tree.nodes[node.parent].step + 1)
    best = [node.node for node in tree.nodes if node.state == "best"]
    assert sorted(best) == sorted(roads[0])
    assert tree.left_out == 0


def test_the_pruned_are_worse_than_the_taken(reverse: ModelTranslator) -> None:
    tree, _ = grow(reverse, 3)
    steps = {node.step for node in tree.nodes}
    for step in steps:
        here = [node for node in tree.nodes if node.step == step]
        hopeless = {node.node for node in here if node.state == "pruned" and here.index(node) < 3}
        taken = [node.total for node in here[:3]]
        others = [node.total for node in here[3:] if node.node not in hopeless]
        assert not others or min(taken) >= max(others)


def test_a_search_that_is_cut(reverse: ModelTranslator) -> None:
    tree, roads = grow(reverse, 2, max_length_ratio=0.0, max_length_extra=2)
    assert {node.step for node in tree.nodes} == {0, 1}
    assert {tree.nodes[road[-1]].state for road in roads} == {"best", "cut"}


def test_a_very_large_tree_omits_pruned_nodes(reverse: ModelTranslator, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, _ = grow(reverse, 3)
    monkeypatch.setattr(beam_tree, "MAX_NODES", 5)
    tree, _ = grow(reverse, 3)
    assert len(tree.nodes) + tree.left_out == len(whole.nodes)
    assert tree.left_out > 0


def test_tokens_that_are_forbidden_are_no_candidates(reverse: ModelTranslator) -> None:
    tree, _ = grow(reverse, 4)
    assert not {node.id for node in tree.nodes} & {0, 1, 2}
    assert all(torch.isfinite(torch.tensor(node.total)) for node in tree.nodes)
