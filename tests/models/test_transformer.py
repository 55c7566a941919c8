"""What must hold of the Transformer whatever the sentence: by hypothesis, in float64."""

from __future__ import annotations

import functools
import math
from typing import Any, get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from regard.config import ModelConfig, NormOrder, Position, Sharing
from regard.core.attention import MultiHeadAttention
from regard.core.linear import Linear
from regard.core.norms import LayerNorm
from regard.core.residual import Residual
from regard.core.taps import Tap, listen, record, tap_paths
from regard.models.transformer import PAD, Transformer
from regard.train.optimizer import paper_learning_rate

VOCABULARY = 12
POSITIONS: tuple[Position, ...] = get_args(Position)
ORDERS: tuple[NormOrder, ...] = get_args(NormOrder)

every_kind = pytest.mark.parametrize("position", POSITIONS)
every_order = pytest.mark.parametrize("order", ORDERS)
few = settings(max_examples=10, deadline=None)

sentence = st.lists(st.integers(1, VOCABULARY - 1), min_size=1, max_size=7)


def small_config(**changes: Any) -> ModelConfig:
    sizes = {"d_model": 8, "n_heads": 2, "d_ff": 16, "n_encoder_layers": 2, "n_decoder_layers": 2}
    words = {"src_vocab_size": VOCABULARY, "tgt_vocab_size": VOCABULARY, "max_positions": 32}
    return ModelConfig(**{**sizes, **words, **changes})


@functools.cache
def model_of(position: Position = "sinusoidal", order: NormOrder = "post") -> Transformer:
    """A small model with random biases, gains and positions, dropout configured and switched off."""
    torch.manual_seed(0)
    model = Transformer(small_config(position=position, norm_order=order)).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    return model.requires_grad_(False)


def batch(sentences: list[list[int]], width: int = 0) -> Tensor:
    width = max(width, *map(len, sentences), 1)
    return torch.tensor([ids + [PAD] * (width - len(ids)) for ids in sentences])


def close(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-12)


@every_order
@every_kind
@given(src=sentence, past=sentence, one=sentence, other=sentence)
@few
def test_future_tokens_never_change_past_logits(
    position: Position, order: NormOrder, src: list[int], past: list[int], one: list[int], other: list[int]
) -> None:
    model = model_of(position, order)
    first, second = (model(batch([src]), batch([past + future])) for future in (one, other))
    close(first[:, : len(past)], second[:, : len(past)])


@every_kind
def test_past_tokens_and_the_source_do_change_the_logits(position: Position) -> None:
    model = model_of(position)
    logits = model(batch([[3, 4, 5]]), batch([[1, 2, 3]]))
    assert (model(batch([[3, 4, 5]]), batch([[6, 2, 3]])) - logits).abs().min(dim=-1).values.max() > 1e-6
    assert (model(batch([[3, 4, 6]]), batch([[1, 2, 3]])) - logits)[0, 0].abs().max() > 1e-6
    assert (model(batch([[5, 4, 3]]), batch([[1, 2, 3]])) - logits)[0, 0].abs().max() > 1e-6 or position == "none"


@every_order
@every_kind
@given(
    pairs=st.lists(st.tuples(sentence, sentence), min_size=1, max_size=4),
    more_source=st.integers(0, 4),
    more_target=st.integers(0, 4),
)
@few
def test_padding_and_batch_mates_are_irrelevant(
    position: Position, order: NormOrder, pairs: list[tuple[list[int], list[int]]], more_source: int, more_target: int
) -> None:
    model = model_of(position, order)
    sources, targets = [src for src, _ in pairs], [tgt for _, tgt in pairs]
    src = batch(sources, max(map(len, sources)) + more_source)
    tgt = batch(targets, max(map(len, targets)) + more_target)
    together, memory = model(src, tgt), model.encode(src)
    for row, (source, target) in enumerate(pairs):
        close(together[row, : len(target)], model(batch([source]), batch([target]))[0])
        close(memory[row, : len(source)], model.encode(batch([source]))[0])


@every_order
@every_kind
@given(pairs=st.lists(st.tuples(sentence, sentence), min_size=1, max_size=3))
@few
def test_cached_steps_equal_the_whole(
    position: Position, order: NormOrder, pairs: list[tuple[list[int], list[int]]]
) -> None:
    model = model_of(position, order)
    length = min(len(tgt) for _, tgt in pairs)
    src, tgt = batch([src for src, _ in pairs]), torch.tensor([tgt[:length] for _, tgt in pairs])
    state = model.begin(src, length)
    stepped = []
    for i in range(length):
        assert state.length == i
        stepped.append(model.step(tgt[:, i], state))
    close(torch.stack(stepped, dim=1), model(src, tgt))


@every_kind
@given(data=st.data(), sources=st.lists(sentence, min_size=1, max_size=3))
@few
def test_reordered_caches_equal_reordered_prefixes(position: Position, data: Any, sources: list[list[int]]) -> None:
    """As a beam search does it: rows are copied, dropped and swapped, within a sentence and across."""
    model = model_of(position, "pre")
    steps = 4
    state, src = model.begin(batch(sources), steps), batch(sources)
    prefix = torch.empty(len(src), 0, dtype=torch.long)
    for _ in range(steps):
        rows = torch.tensor(data.draw(st.lists(st.integers(0, len(src) - 1), min_size=1, max_size=4)))
        state.reorder(rows)
        src, prefix = src[rows], prefix[rows]
        tokens = torch.tensor(data.draw(st.lists(st.integers(1, 11), min_size=len(src), max_size=len(src))))
        prefix = torch.cat([prefix, tokens[:, None]], dim=1)
        close(model.step(tokens, state), model(src, prefix)[:, -1])


def test_beams_that_change_places_leave_the_memory_where_it_is() -> None:
    model = model_of()
    state = model.begin(batch([[3, 4], [5, 6]]), 3)
    state.reorder(torch.tensor([0, 0, 1, 1]))
    model.step(torch.tensor([1, 2, 3, 4]), state)
    memories = [memory.k_RHMK for memory in state.memories]
    own = state.own[0].k_RHTK
    state.reorder(torch.tensor([1, 0, 3, 3]))
    assert all(memory.k_RHMK is before for memory, before in zip(state.memories, memories, strict=True))
    assert torch.equal(state.own[0].k_RHTK[:, :, :1], own[torch.tensor([1, 0, 3, 3])][:, :, :1])


def test_more_steps_than_room_is_an_error() -> None:
    model = model_of()
    state = model.begin(batch([[3]]), 1)
    model.step(torch.tensor([1]), state)
    with pytest.raises(ValueError, match="room for only 1"):
        model.step(torch.tensor([1]), state)


@every_order
@given(data=st.data(), src=sentence)
@few
def test_without_positions_the_encoder_is_permutation_equivariant(order: NormOrder, data: Any, src: list[int]) -> None:
    model = model_of("none", order)
    order_M = torch.tensor(data.draw(st.permutations(range(len(src)))))
    ids = batch([src])
    close(model.encode(ids[:, order_M]), model.encode(ids)[:, order_M])


@pytest.mark.parametrize("position", [p for p in POSITIONS if p != "none"])
def test_with_positions_it_is_not(position: Position) -> None:
    model = model_of(position)
    ids = batch([[3, 4, 5, 6]])
    assert (model.encode(ids.flip(1)) - model.encode(ids).flip(1)).abs().max() > 1e-3


def test_learned_positions_have_an_end() -> None:
    with pytest.raises(ValueError, match="33 tokens, but this model has learned positions for only 32"):
        model_of("learned")(batch([[3] * 33]), batch([[1]]))


def test_sinusoids_have_none() -> None:
    assert model_of()(batch([[3] * 300]), batch([[1] * 270])).isfinite().all()


SRC, TGT = batch([[3, 4, 5], [6, 7]]), batch([[1, 8, 9, 10], [1, 2]])


@every_order
@every_kind
def test_recorded_weights_are_what_they_should_be(position: Position, order: NormOrder) -> None:
    model = model_of(position, order)
    plain = model(SRC, TGT)
    with record(model, "*.weights") as trace:
        close(model(SRC, TGT), plain)
    assert trace.kernel == "reference"
    assert len(trace.paths()) == 2 + 2 * 2
    for path in trace.paths():
        weights = trace[path]
        keys = 4 if path.startswith("decoder") and "attention" in path else 3
        assert weights.shape == (2, 2, 3 if path.startswith("encoder") else 4, keys)
        close(weights.sum(-1), torch.ones(weights.shape[:-1], dtype=torch.float64))
        if keys == 4:
            assert not weights.triu(1).any()
            assert (weights.tril() > 0).sum() == 2 * 2 * (1 + 2 + 3 + 4)
        else:
            assert not weights[1, :, :, 2].any()
            assert (weights[0] > 0).all()


def test_taps_have_their_names() -> None:
    """What the pages and the labs listen to; a renamed tap breaks them."""
    paths = set(tap_paths(model_of()))
    assert {"src_embedded", "tgt_embedded", "memory", "logits"} <= paths
    for layer in ("encoder.0", "decoder.1"):
        inner = {"q", "k", "v", "scores", "weights", "head_out", "attn_out"}
        assert {f"{layer}.attention.{name}" for name in inner} <= paths
        assert {f"{layer}.ffn.ffn_hidden", f"{layer}.around_ffn.resid", f"{layer}.around_ffn.normed"} <= paths
    assert "decoder.0.cross.weights" in paths


@every_order
def test_every_tap_is_passed_and_recording_changes_nothing(order: NormOrder) -> None:
    model = model_of("sinusoidal", order)
    plain = model(SRC, TGT)
    with record(model) as trace:
        assert torch.equal(model(SRC, TGT), plain)
    assert sorted(trace.paths()) == sorted(tap_paths(model))
    assert all(len(values) == 1 for values in trace.values.values())
    assert torch.equal(trace["logits"], plain)
    assert torch.equal(trace["memory"], model.encode(SRC))


def test_an_intervention_changes_the_output() -> None:
    """A head whose weights look at the first source token alone gives what that token's value gives."""
    model = model_of()
    plain = model(SRC, TGT)

    def first_only(path: str, weights: Tensor) -> Tensor:
        changed = torch.zeros_like(weights)
        changed[..., 0] = 1
        return changed

    with listen(model, {"decoder.0.cross.weights": first_only}), record(model, "decoder.0.cross.head_out") as trace:
        changed = model(SRC, TGT)
    assert (changed - plain).abs().max() > 1e-3
    value = model.decoder[0].cross.keys_and_values(model.encode(SRC))[1]  # type: ignore[union-attr, operator]
    close(trace["decoder.0.cross.head_out"], value[:, :, :1].expand(-1, -1, 4, -1))
    assert torch.equal(model(SRC, TGT), plain)


def test_nothing_stays_attached_when_the_model_fails() -> None:
    model = model_of()
    with pytest.raises(IndexError), record(model):
        model(torch.tensor([[VOCABULARY + 5]]), TGT[:1])
    assert not any(module.heard for module in model.modules() if isinstance(module, Tap))


def test_taps_work_in_a_search_too() -> None:
    model = model_of()
    with record(model, "decoder.*.cross.weights") as trace:
        state = model.begin(SRC, 2)
        for i in range(2):
            model.step(TGT[:, i], state)
    with record(model, "decoder.*.cross.weights") as whole:
        model(SRC, TGT[:, :2])
    for path in whole.paths():
        close(torch.cat(trace.values[path], dim=2), whole[path])


def float_model(**changes: Any) -> Transformer:
    torch.manual_seed(0)
    return Transformer(small_config(d_model=32, n_heads=4, d_ff=64, dropout=0.0, **changes))


@every_kind
@pytest.mark.parametrize("norm", ["layernorm", "rmsnorm"])
def test_computing_in_bf16_keeps_float32_weights_and_gradients(position: Position, norm: str) -> None:
    model = float_model(position=position, norm=norm)

    def run() -> tuple[Tensor, Tensor]:
        model.zero_grad()
        logits = model(SRC, TGT)
        nn.functional.cross_entropy(logits.float().flatten(0, 1), TGT.flatten()).backward()
        assert all(p.grad is not None and p.grad.dtype == torch.float32 for p in model.parameters())
        return logits.detach(), torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])

    exact, exact_gradient = run()
    model.compute_dtype = torch.bfloat16
    rough, rough_gradient = run()
    assert (exact.dtype, rough.dtype) == (torch.float32, torch.bfloat16)
    assert all(p.dtype == torch.float32 for p in model.parameters())
    assert 0 < (rough.float() - exact).norm() / exact.norm() < 0.03
    assert torch.cosine_similarity(rough_gradient, exact_gradient, dim=0) > 0.99
    with torch.no_grad():
        state = model.begin(SRC, 2)
        stepped = model.step(TGT[:, 0], state)
    assert stepped.dtype == torch.bfloat16
    torch.testing.assert_close(stepped.float(), exact[:, 0], rtol=0, atol=0.1)


def test_initial_weights() -> None:
    torch.manual_seed(0)
    d_model = 256
    config = ModelConfig(d_model=d_model, d_ff=512, n_encoder_layers=1, n_decoder_layers=1,
                         src_vocab_size=2000, tgt_vocab_size=2000)  # fmt: skip
    model = Transformer(config)
    table = model.tgt_embedding.weight
    assert table[1:].var().item() == pytest.approx(1 / d_model, rel=0.02)
    assert not table[PAD].any()
    assert model.tgt_embedding(torch.arange(1, 2000)).var().item() == pytest.approx(1, rel=0.02)
    for module in model.modules():
        if isinstance(module, Linear):
            bound = math.sqrt(6 / (module.in_features + module.out_features))
            assert module.weight.abs().max() <= bound
            assert module.weight.var().item() == pytest.approx(bound**2 / 3, rel=0.03)
            assert not module.bias.any()
        elif isinstance(module, LayerNorm):
            assert (module.weight == 1).all()
            assert not module.bias.any()


@pytest.mark.parametrize("position", ["learned", "relative"])
def test_initial_positions_are_not_all_alike(position: Position) -> None:
    torch.manual_seed(0)
    model = Transformer(small_config(position=position, d_model=32, n_heads=8))
    for positions in (model.src_positions, model.tgt_positions):
        (table,) = positions.parameters()
        assert table.std().item() == pytest.approx(0.02, rel=0.2)


def test_only_learned_positions_have_a_longest_target() -> None:
    longest = {position: model_of(position).longest_target for position in POSITIONS}
    assert longest == {position: 32 if position == "learned" else None for position in POSITIONS}


def test_without_initialising_no_random_number_is_drawn() -> None:
    torch.manual_seed(0)
    before = torch.get_rng_state()
    Transformer(small_config(), initialise=False)
    assert torch.equal(torch.get_rng_state(), before)
    Transformer(small_config())
    assert not torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(("sharing", "tables"), [("all", 1), ("output", 2), ("none", 3)])
def test_sharing(sharing: Sharing, tables: int) -> None:
    model = Transformer(small_config(sharing=sharing))
    assert (model.src_embedding is model.tgt_embedding) == (sharing == "all")
    assert (model.output is model.tgt_embedding) == (sharing != "none")
    layers = sum(p.numel() for stack in (model.encoder, model.decoder) for p in stack.parameters())
    assert sum(p.numel() for p in model.parameters()) == layers + tables * VOCABULARY * 8
    model(SRC, TGT).sum().backward()
    assert all(p.grad is not None for p in model.parameters())


def test_two_vocabularies() -> None:
    model = Transformer(small_config(sharing="output", src_vocab_size=20, tgt_vocab_size=9)).eval()
    logits = model(torch.tensor([[19, 15]]), torch.tensor([[8, 1, 2]]))
    assert logits.shape == (1, 3, 9)


@every_order
def test_dropout_acts_in_training_only_and_by_the_seed(order: NormOrder) -> None:
    torch.manual_seed(0)
    model = Transformer(small_config(dropout=0.3, norm_order=order))
    torch.manual_seed(1)
    first = model(SRC, TGT)
    torch.manual_seed(1)
    assert torch.equal(model(SRC, TGT), first)
    assert not torch.equal(model(SRC, TGT), first)
    model.eval()
    assert torch.equal(model(SRC, TGT), model(SRC, TGT))


@every_order
def test_dropout_falls_on_what_a_sublayer_adds_and_not_on_the_residual(order: NormOrder) -> None:
    """The paper, section 5.4: on the output of each sublayer, before it is added and normalised."""
    torch.manual_seed(0)
    around = Residual(8, order, "layernorm", dropout=0.5)
    x = torch.randn(50, 8)
    with record(around, "resid") as trace:
        around.after(x, torch.ones_like(x))
    added = trace["resid"] - x
    assert 120 < (added.abs() < 1e-6).sum() < 280
    torch.testing.assert_close(added.abs().amax(), torch.tensor(2.0))


def test_dropout_falls_on_the_embeddings_too() -> None:
    torch.manual_seed(0)
    model = Transformer(small_config(dropout=0.5))
    with record(model, "*_embedded") as trace:
        model(SRC, TGT)
    assert all((trace[path] == 0).float().mean() > 0.2 for path in ("src_embedded", "tgt_embedded"))


def test_attention_and_activation_dropout_reach_their_places() -> None:
    model = Transformer(small_config(dropout=0.0, attention_dropout=0.25, activation_dropout=0.5))
    for module in model.modules():
        if isinstance(module, MultiHeadAttention):
            assert module.dropout.rate == 0.25
    assert {layer.ffn.dropout.rate for layer in (*model.encoder, *model.decoder)} == {0.5}  # type: ignore[union-attr]
    assert model.dropout.rate == 0


def test_hidden_projected_is_forward() -> None:
    model = model_of()
    assert torch.equal(model.project(model.hidden(SRC, TGT)), model(SRC, TGT))


def test_state_dict_has_weights_only_and_loads_into_another() -> None:
    model = model_of("sinusoidal", "pre")
    other = Transformer(small_config(norm_order="pre")).double().eval()
    other.load_state_dict(model.state_dict())
    close(other(SRC, TGT), model(SRC, TGT))
    assert not any("table" in name or "slope" in name for name in model.state_dict())


def test_the_papers_learning_rate_peaks_at_7e_4() -> None:
    assert paper_learning_rate(512, 4000) == pytest.approx(512**-0.5 * 4000**-0.5)
    assert paper_learning_rate(512, 4000) == pytest.approx(6.99e-4, rel=1e-3)
