"""What must hold of the recurrent model whatever the sentence, by hypothesis, in float64; and what it is made of."""

from __future__ import annotations

import functools
from typing import Any, get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from regard.config import PRESETS, Bidirectional, CellKind, RecurrentAttention, RecurrentConfig, Sharing
from regard.core.linear import Linear
from regard.core.recurrent import Recurrence
from regard.core.taps import listen, record, tap_paths
from regard.models.recurrent import PAD, RecurrentModel

VOCABULARY = 12
CELLS: tuple[CellKind, ...] = get_args(CellKind)
ATTENTIONS: tuple[RecurrentAttention, ...] = get_args(RecurrentAttention)

every_cell = pytest.mark.parametrize("cell", CELLS)
every_attention = pytest.mark.parametrize("attention", ATTENTIONS)
few = settings(max_examples=8, deadline=None)
sentence = st.lists(st.integers(1, VOCABULARY - 1), min_size=1, max_size=7)


def small_config(**changes: Any) -> RecurrentConfig:
    sizes = {"d_model": 6, "n_encoder_layers": 2, "n_decoder_layers": 3, "residual": True}
    return RecurrentConfig(**{**sizes, "src_vocab_size": VOCABULARY, "tgt_vocab_size": VOCABULARY, **changes})


@functools.cache
def model_of(cell: CellKind = "lstm", attention: RecurrentAttention = "additive", **changes: Any) -> RecurrentModel:
    """A small model with random biases, dropout configured and switched off."""
    torch.manual_seed(0)
    model = RecurrentModel(small_config(cell=cell, attention=attention, **changes)).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    return model.requires_grad_(False)


def batch(sentences: list[list[int]], width: int = 0) -> Tensor:
    width = max(width, *map(len, sentences), 1)
    return torch.tensor([ids + [PAD] * (width - len(ids)) for ids in sentences])


def close(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-12)


@every_attention
@every_cell
@given(src=sentence, past=sentence, one=sentence, other=sentence)
@few
def test_future_tokens_never_change_past_logits(
    cell: CellKind, attention: RecurrentAttention, src: list[int], past: list[int], one: list[int], other: list[int]
) -> None:
    model = model_of(cell, attention)
    first, second = (model(batch([src]), batch([past + future])) for future in (one, other))
    close(first[:, : len(past)], second[:, : len(past)])


@every_attention
@every_cell
def test_past_tokens_and_the_source_do_change_the_logits(cell: CellKind, attention: RecurrentAttention) -> None:
    model = model_of(cell, attention)
    logits = model(batch([[3, 4, 5]]), batch([[1, 2, 3]]))
    assert (model(batch([[3, 4, 5]]), batch([[6, 2, 3]])) - logits)[0, -1].abs().max() > 1e-6
    for place in range(3):  # wherever in the source, from the first prediction on
        src = [3, 4, 5]
        src[place] = 9
        assert (model(batch([src]), batch([[1, 2, 3]])) - logits).abs().amax(dim=-1).min() > 1e-6


@every_attention
@every_cell
@given(sentences=st.lists(st.tuples(sentence, sentence), min_size=1, max_size=3), more=st.integers(0, 3))
@few
def test_padding_and_batch_mates_are_irrelevant(
    cell: CellKind, attention: RecurrentAttention, sentences: list[tuple[list[int], list[int]]], more: int
) -> None:
    model = model_of(cell, attention)
    sources, targets = ([pair[side] for pair in sentences] for side in (0, 1))
    together = model(batch(sources, max(map(len, sources)) + more), batch(targets, max(map(len, targets)) + more))
    for row, (src, tgt) in enumerate(sentences):
        close(together[row, : len(tgt)], model(batch([src]), batch([tgt]))[0])


@every_attention
@every_cell
@given(sources=st.lists(sentence, min_size=2, max_size=3), steps=st.integers(1, 5), seed=st.integers(0, 99))
@few
def test_cached_steps_equal_the_whole_pass_however_rows_are_reordered(
    cell: CellKind, attention: RecurrentAttention, sources: list[list[int]], steps: int, seed: int
) -> None:
    model = model_of(cell, attention)
    generator = torch.Generator().manual_seed(seed)
    state = model.begin(batch(sources), steps)
    rows = torch.arange(len(sources))  # the sentence of each row
    written = torch.empty(len(sources), 0, dtype=torch.int64)
    for _ in range(steps):
        tokens = torch.randint(1, VOCABULARY, (len(rows),), generator=generator)
        written = torch.cat([written, tokens[:, None]], dim=1)
        logits = model.step(tokens, state)
        close(logits, model(batch([sources[i] for i in rows.tolist()]), written)[:, -1])
        chosen = torch.randint(len(rows), (len(rows) + 1,), generator=generator)
        state.reorder(chosen)
        rows, written = rows[chosen], written[chosen]


def test_beams_that_change_places_within_a_sentence_leave_its_memory_alone() -> None:
    model = model_of()
    state = model.begin(batch([[3, 4], [5, 6]]), 4)
    state.reorder(torch.tensor([0, 0, 1, 1]))
    memory = state.memory
    state.reorder(torch.tensor([1, 0, 3, 3]))
    assert state.memory is memory
    state.reorder(torch.tensor([2, 3]))
    assert state.memory is not None
    assert state.memory is not memory
    assert len(state.memory.values_BMS) == 2


def test_without_attention_the_sentence_is_one_vector() -> None:
    """Whatever else the encoder made, two sentences with the same last state are the same to the decoder."""
    model = model_of("lstm", "none", bidirectional="none")
    tgt = batch([[1, 2, 3, 4]])
    with record(model, "summary") as seen:
        long = model(batch([[3, 4, 5, 6, 7]]), tgt)
    assert seen["summary"].shape == (1, 6)
    with listen(model, {"summary": lambda _, x: seen["summary"]}):
        close(model(batch([[8]]), tgt), long)
    assert not [path for path in tap_paths(model) if "cross" in path]


def test_the_summary_is_the_last_state_of_each_direction() -> None:
    model = model_of("gru", "none", n_encoder_layers=1)
    with record(model, "summary", "encoder.0.states") as seen:
        model(batch([[3, 4, 5]], 6), batch([[1]]))
    states_MS = seen["encoder.0.states"][0]
    close(seen["summary"][0], torch.cat([states_MS[2, :6], states_MS[0, 6:]]))  # not what stands at the padding


@pytest.mark.parametrize("attention", ["additive", "dot"])
def test_weights_have_a_head_and_end_where_the_sentence_ends(attention: RecurrentAttention) -> None:
    model = model_of("lstm", attention)
    with record(model, "decoder.*.cross.weights") as seen:
        model(batch([[3, 4, 5], [6]]), batch([[1, 2], [1, 2]]))
    assert seen.paths() == ["decoder.0.cross.weights"]
    steps = seen.values["decoder.0.cross.weights"]
    assert [step.shape for step in steps] == [(2, 1, 1, 3)] * 2
    weights_BHLM = torch.cat(steps, dim=2)
    close(weights_BHLM.sum(dim=-1), torch.ones(2, 1, 2, dtype=torch.float64))
    assert weights_BHLM[1, 0, :, 1:].abs().max() == 0
    assert weights_BHLM[0, 0, :, :].min() > 0


def test_gnmt_is_the_papers() -> None:
    """Wu et al. 2016, section 3, at a fraction of the size."""
    model = RecurrentModel(RecurrentConfig(**{**PRESETS["gnmt"], "d_model": 4}, src_vocab_size=9, tgt_vocab_size=9))
    sizes = [layer.forwards.inputs.in_features for layer in model.encoder]  # type: ignore[union-attr]
    assert [layer.backwards is not None for layer in model.encoder] == [True] + [False] * 7
    assert sizes == [4, 8] + [4] * 6
    assert [layer.cross is not None for layer in model.decoder] == [True] + [False] * 7
    assert [layer.context.in_features for layer in model.decoder] == [4] * 8  # type: ignore[union-attr]
    assert model.deep_output is None


def test_residuals_start_at_the_third_layer() -> None:
    """A layer whose output is silenced passes on what it was given, from the third layer on; below, nothing."""
    model = model_of("lstm", "additive", n_encoder_layers=4, n_decoder_layers=4, deep_output=False)
    src, tgt = batch([[3, 4, 5]]), batch([[1, 2]])

    def silence(*layers: str) -> dict[str, Any]:
        return {f"{layer}.states": lambda _, x: torch.zeros_like(x) for layer in layers}

    with listen(model, silence("encoder.2", "encoder.3")), record(model, "encoder.1.states", "memory") as seen:
        model(src, tgt)
    close(seen["memory"], seen["encoder.1.states"])
    with listen(model, silence("decoder.2", "decoder.3")), record(model, "decoder.1.states") as seen:
        close(model.hidden(src, tgt), seen["decoder.1.states"])
    with listen(model, silence("encoder.1")), record(model, "memory", "encoder.2.states", "encoder.3.states") as seen:
        model(src, tgt)
    close(seen["memory"], seen["encoder.2.states"] + seen["encoder.3.states"])


def test_every_layer_of_the_decoder_gets_the_context() -> None:
    model = model_of("gru", "additive")
    src, tgt = batch([[3, 4, 5]]), batch([[1, 2]])
    taps = [f"decoder.{number}.states" for number in range(3)]
    with record(model, *taps) as before:
        model(src, tgt)
    for number in range(1, 3):
        context = model.decoder[number].context
        kept = context.weight.clone()  # type: ignore[union-attr, operator]
        context.weight.zero_()  # type: ignore[union-attr, operator]
        with record(model, *taps) as after:
            model(src, tgt)
        context.weight.copy_(kept)  # type: ignore[union-attr, operator]
        assert (before[taps[number]] - after[taps[number]]).abs().max() > 1e-6
        close(before[taps[0]], after[taps[0]])


@pytest.mark.parametrize(("bidirectional", "expected"), [("none", [6, 6, 6]), ("first", [12, 6, 6]), ("all", [12] * 3)])
def test_directions(bidirectional: Bidirectional, expected: list[int]) -> None:
    model = model_of("lstm", "dot", bidirectional=bidirectional, n_encoder_layers=3)
    with record(model, "encoder.*.states") as seen:
        logits = model(batch([[3, 4, 5]]), batch([[1, 2]]))
    assert [seen[f"encoder.{number}.states"].shape[-1] for number in range(3)] == expected
    assert logits.shape == (1, 2, VOCABULARY)


@pytest.mark.parametrize("sharing", get_args(Sharing))
def test_sharing(sharing: Sharing) -> None:
    model = RecurrentModel(small_config(sharing=sharing))
    assert (model.src_embedding is model.tgt_embedding) == (sharing == "all")
    assert (model.output is model.tgt_embedding) == (sharing != "none")


@every_cell
def test_initialisation(cell: CellKind) -> None:
    torch.manual_seed(0)
    model = RecurrentModel(small_config(cell=cell, d_model=32))
    recurrences = [module for module in model.modules() if isinstance(module, Recurrence)]
    assert len(recurrences) == 3 + 3  # the first encoder layer has two
    for module in recurrences:
        for rows in module.recurrent.weight.split(32):
            torch.testing.assert_close(rows @ rows.T, torch.eye(32), rtol=0, atol=1e-5)
        biases = dict(zip({"rnn": "h", "gru": "rzn", "lstm": "ifgo"}[cell], module.inputs.bias.split(32), strict=True))
        for gate, bias in biases.items():
            assert torch.equal(bias, torch.full((32,), 1.0 if gate == "f" else 0.0))
    assert torch.equal(model.tgt_embedding.weight[PAD], torch.zeros(32))
    assert all(bool(torch.isfinite(parameter).all()) for parameter in model.parameters())


@every_attention
@every_cell
def test_in_bf16_every_gradient_is_float32_and_near(cell: CellKind, attention: RecurrentAttention) -> None:
    torch.manual_seed(0)
    model = RecurrentModel(small_config(cell=cell, attention=attention, dropout=0.0))
    src, tgt = batch([[3, 4, 5], [6, 7]]), batch([[1, 2, 8], [1, 5]])
    gradients = {}
    for dtype in (torch.float32, torch.bfloat16):
        model.compute_dtype = dtype
        hidden = model.hidden(src, tgt)
        assert hidden.dtype == dtype
        model.zero_grad()
        hidden.float().square().sum().backward()
        gradients[dtype] = torch.cat([p.grad.flatten() for p in model.parameters()])  # type: ignore[union-attr]
        assert gradients[dtype].dtype == torch.float32
    exact, rounded = gradients[torch.float32], gradients[torch.bfloat16]
    assert nn.functional.cosine_similarity(exact, rounded, dim=0) > 0.99


def test_a_whole_model_in_bf16_translates() -> None:
    model = RecurrentModel(small_config()).eval().requires_grad_(False)
    src, tgt = batch([[3, 4, 5], [6, 7]]), batch([[1, 2, 8], [1, 5, 4]])
    wanted = model(src, tgt)
    model = model.bfloat16()
    state = model.begin(src, 3)
    logits = torch.stack([model.step(tokens, state) for tokens in tgt.unbind(1)], dim=1)
    torch.testing.assert_close(logits.float(), wanted, rtol=0, atol=0.1)


def test_dropout_acts_in_training_alone() -> None:
    model = RecurrentModel(small_config(dropout=0.5))
    src, tgt = batch([[3, 4, 5]]), batch([[1, 2]])
    assert not torch.equal(model(src, tgt), model(src, tgt))
    model.eval()
    assert torch.equal(model(src, tgt), model(src, tgt))


def test_linear_maps_without_bias_are_meant() -> None:
    """What is added to something that has a bias has none of its own."""
    model = RecurrentModel(small_config())
    without = {name for name, module in model.named_modules() if isinstance(module, Linear) and module.bias is None}
    assert {name.rpartition(".")[2] for name in without} == {"recurrent", "context", "from_state"}


def test_no_limit_to_a_target() -> None:
    assert model_of().longest_target is None
