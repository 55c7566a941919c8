"""Properties of every translation model for any sentence, with hypothesis, in float64."""

from __future__ import annotations

import random
from typing import Any, get_args

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor

from regard.config import CellKind, MixtureConfig, NormOrder, Position, RecurrentAttention
from regard.core.taps import record, tap_paths
from regard.tokenizers.special_ids import PAD

# The family, and the settings that are not the usual.
TRANSLATORS: dict[str, tuple[str, dict[str, Any]]] = {
    **{
        f"transformer-{position}-{order}": ("transformer", {"position": position, "norm_order": order})
        for position in get_args(Position)
        for order in get_args(NormOrder)
    },
    "transformer-experts": (
        "transformer",
        {"ffn": "moe", "moe": MixtureConfig(n_experts=4, experts_per_token=2, d_ff=6)},
    ),
    **{
        f"recurrent-{cell}-{attention}": ("recurrent", {"cell": cell, "attention": attention})
        for cell in get_args(CellKind)
        for attention in get_args(RecurrentAttention)
    },
    "t5": ("t5", {}),
    "t5-geglu": ("t5", {"ffn": "geglu", "tie_embeddings": "inputs", "scale_output": False, "output_bias": True}),
}

few = settings(max_examples=10, deadline=None)
# Words from 1 to 11. Made of bytes, which hypothesis draws all at once: a draw a word is slower.
sentence = st.binary(min_size=1, max_size=7).map(lambda drawn: [1 + byte % 11 for byte in drawn])

SRC = torch.tensor([[3, 4, 5], [6, 7, PAD]])
TGT = torch.tensor([[1, 8, 9, 10], [1, 2, PAD, PAD]])


@pytest.fixture(scope="module", params=TRANSLATORS)
def model(request: pytest.FixtureRequest, small: Any) -> Any:
    family, changes = TRANSLATORS[request.param]
    return small.model(family, **changes)


def attentions(config: Any) -> list[str]:
    """The taps of the attention weights."""
    if config.family == "recurrent":
        return [] if config.attention == "none" else ["decoder.0.cross.weights"]
    kinds = ("encoder", "attention"), ("decoder", "attention"), ("decoder", "cross")
    return [f"{stack}.{number}.{kind}.weights" for stack, kind in kinds for number in range(2)]


@given(src=sentence, past=sentence, one=sentence, other=sentence)
@few
def test_future_tokens_never_change_past_logits(
    model: Any, small: Any, src: list[int], past: list[int], one: list[int], other: list[int]
) -> None:
    first, second = (model(torch.tensor([src]), torch.tensor([past + future])) for future in (one, other))
    small.close(first[:, : len(past)], second[:, : len(past)])


def test_past_tokens_and_the_source_do_change_the_logits(model: Any) -> None:
    sources = [[3, 4, 5], [9, 4, 5], [3, 9, 5], [3, 4, 9], [3, 4, 5]]
    targets = [[1, 2, 3], [1, 2, 3], [1, 2, 3], [1, 2, 3], [6, 2, 3]]
    usual, *changed = model(torch.tensor(sources), torch.tensor(targets))
    for logits in changed:  # every one of them, from the first prediction on
        assert (logits - usual).abs().min() > 1e-6


def test_the_order_of_words_matters_on_both_sides(model: Any, small: Any) -> None:
    sources = [[3, 4, 5], [5, 4, 3], [4, 3, 5], [3, 4, 5]]
    targets = [[1, 2, 3], [1, 2, 3], [1, 2, 3], [2, 1, 3]]
    usual, *of_sources, of_target = model(torch.tensor(sources), torch.tensor(targets))
    for logits in of_sources:
        if model.config.family == "transformer" and model.config.position == "none":
            small.close(logits, usual)
        else:
            assert (logits - usual).abs().amax(dim=-1).min() > 1e-6
    # Also without positions: what a layer made of a word depends on the words before it.
    assert (of_target - usual)[-1].abs().max() > 1e-6


@given(
    pairs=st.lists(st.tuples(sentence, sentence), min_size=1, max_size=4),
    more_source=st.integers(0, 4),
    more_target=st.integers(0, 4),
)
@few
def test_padding_and_batch_mates_are_irrelevant(
    model: Any, small: Any, pairs: list[tuple[list[int], list[int]]], more_source: int, more_target: int
) -> None:
    sources, targets = ([pair[side] for pair in pairs] for side in (0, 1))
    src = small.batch(sources, max(map(len, sources)) + more_source)
    tgt = small.batch(targets, max(map(len, targets)) + more_target)
    with record(model, "memory") as trace:
        together = model(src, tgt)
        alone = [model(torch.tensor([source]), torch.tensor([target]))[0] for source, target in pairs]
    memory, *memories = trace.values["memory"]

    def unpadded(x: Tensor, sentences: list[list[int]]) -> Tensor:
        return torch.cat([row[: len(ids)] for row, ids in zip(x, sentences, strict=True)])

    small.close(unpadded(together, targets), torch.cat(alone))
    small.close(unpadded(memory, sources), torch.cat(memories, dim=1)[0])


@given(
    sources=st.lists(sentence, min_size=1, max_size=3),
    steps=st.integers(1, 8),
    reordering=st.sampled_from(["never", "sometimes", "always"]),
    seed=st.integers(0, 99),
)
@example(sources=[[3, 4, 5, 6, 7, 8, 9, 10, 11], [6]], steps=8, reordering="never", seed=0)
@few
def test_cached_steps_equal_the_whole_pass_however_rows_are_reordered(
    model: Any, small: Any, sources: list[list[int]], steps: int, reordering: str, seed: int
) -> None:
    """As a beam search does it: rows are copied, dropped and swapped, within a sentence and across."""
    draw = random.Random(seed)
    state = model.begin(small.batch(sources), steps)
    written: list[tuple[list[int], list[int]]] = [(source, []) for source in sources]
    seen, stepped = [], []
    for step in range(steps):
        rows = list(range(len(written)))
        if reordering == "always" or (reordering == "sometimes" and draw.random() < 0.5):
            rows = draw.choices(rows, k=draw.randint(1, len(rows) + 3))
            state.reorder(torch.tensor(rows))
        written = [(written[row][0], [*written[row][1], draw.randint(1, 11)]) for row in rows]
        if model.config.family != "recurrent":  # whose state does not grow
            assert state.length == step
        stepped.append(model.step(torch.tensor([tgt[-1] for _, tgt in written]), state))
        seen += written
    # One pass for the rows of all steps, to save time.
    whole = model(small.batch([src for src, _ in seen]), small.batch([tgt for _, tgt in seen]))
    small.close(torch.cat(stepped), torch.stack([whole[row, len(tgt) - 1] for row, (_, tgt) in enumerate(seen)]))


def remembered(state: Any) -> list[Tensor]:
    """The memories of a search: keys and values of every layer, or the prepared source of the recurrent model."""
    if hasattr(state, "memories"):
        caches = [part for memory in state.memories for part in (memory.k_RHMK, memory.v_RHMK)]
        return [*caches, state.memory_mask]
    return [] if state.memory is None else [state.memory.keys_BMA, state.memory.values_BMS, state.memory.mask_B11M]


def test_reordering_within_a_sentence_does_not_copy_its_memory(model: Any, small: Any) -> None:
    state = model.begin(torch.tensor([[3, 4], [5, 6]]), 4)
    state.reorder(torch.tensor([0, 0, 1, 1]))
    model.step(torch.tensor([1, 2, 3, 4]), state)
    before = remembered(state)
    assert bool(before) == bool(attentions(model.config))
    state.reorder(torch.tensor([1, 0, 3, 3]))
    assert all(now is then for now, then in zip(remembered(state), before, strict=True))
    whole = model(torch.tensor([[3, 4], [3, 4], [5, 6], [5, 6]]), torch.tensor([[2, 5], [1, 6], [4, 7], [4, 8]]))
    small.close(model.step(torch.tensor([5, 6, 7, 8]), state), whole[:, -1])  # what was written did change places
    state.reorder(torch.tensor([2, 3]))
    for now, then in zip(remembered(state), before, strict=True):
        assert torch.equal(now, then[2:])
        assert len(now) == 2


def test_every_tap_is_passed_and_recording_changes_nothing(model: Any) -> None:
    plain = model(SRC, TGT)
    with record(model) as trace:
        assert torch.equal(model(SRC, TGT), plain)
    assert {"src_embedded", "tgt_embedded", "memory", "logits"} <= set(trace.paths())
    assert sorted(trace.paths()) == sorted(tap_paths(model))
    for path, values in trace.values.items():  # a recurrent decoder looks before each step
        assert len(values) == (4 if model.config.family == "recurrent" and ".cross." in path else 1)
    assert torch.equal(trace["logits"], plain)
    encoded = model.encode(SRC)  # with the summary, if recurrent
    assert torch.equal(trace["memory"], encoded[0] if model.config.family == "recurrent" else encoded)


def test_recorded_weights_are_what_they_should_be(model: Any, small: Any) -> None:
    places = attentions(model.config)
    assert sorted(path for path in tap_paths(model) if path.endswith(".weights")) == sorted(places)
    if not places:
        return
    plain = model(SRC, TGT)
    with record(model, "*.weights") as trace:
        small.close(model(SRC, TGT), plain)
    assert trace.kernel == "reference"
    assert sorted(trace.paths()) == sorted(places)
    heads = 1 if model.config.family == "recurrent" else model.config.n_heads
    for path in places:
        weights = torch.cat(trace.values[path], dim=2)  # a recurrent decoder's, step by step
        keys = 4 if path.startswith("decoder") and "attention" in path else 3
        assert weights.shape == (2, heads, 3 if path.startswith("encoder") else 4, keys)
        small.close(weights.sum(-1), torch.ones(weights.shape[:-1], dtype=torch.float64))
        if keys == 4:
            assert not weights.triu(1).any()
            assert (weights.tril() > 0).sum() == 2 * heads * (1 + 2 + 3 + 4)
        else:
            assert not weights[1, :, :, 2].any()
            assert (weights[0] > 0).all()


def test_taps_work_in_a_search_too(model: Any, small: Any) -> None:
    along_target = {"logits": 1} | {path: 2 for path in attentions(model.config) if ".cross." in path}
    with record(model, *along_target) as trace:
        state = model.begin(SRC, 2)
        for i in range(2):
            model.step(TGT[:, i], state)
    with record(model, *along_target) as whole:
        model(SRC, TGT[:, :2])
    for path, dim in along_target.items():
        small.close(torch.cat(trace.values[path], dim=dim), torch.cat(whole.values[path], dim=dim))


def test_hidden_projected_is_forward(model: Any) -> None:
    assert torch.equal(model.project(model.hidden(SRC, TGT)), model(SRC, TGT))


def test_only_learned_positions_have_a_longest_target(small: Any) -> None:
    longest = {name: small.model(family, **changes).longest_target for name, (family, changes) in TRANSLATORS.items()}
    assert longest == {name: 32 if "learned" in name else None for name in TRANSLATORS}


def test_dropout_acts_in_training_only_and_by_the_seed(model: Any) -> None:
    model.train()
    try:
        torch.manual_seed(1)
        first = model(SRC, TGT)
        torch.manual_seed(1)
        assert torch.equal(model(SRC, TGT), first)
        assert not torch.equal(model(SRC, TGT), first)
    finally:
        model.eval()  # as the other tests want it
    assert torch.equal(model(SRC, TGT), model(SRC, TGT))
