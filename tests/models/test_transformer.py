"""What is specific to the Transformer: positions, taps, initial values, and where dropout applies."""

from __future__ import annotations

import math
from typing import Any, get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from regard.config import NormOrder, Position, TiedEmbeddings, TransformerConfig
from regard.core.attention.multi_head import MultiHeadAttention
from regard.core.linear import Linear
from regard.core.norms import LayerNorm
from regard.core.residual import Residual
from regard.core.taps import Tap, hook_taps, record, tap_paths
from regard.models.transformer import Transformer
from regard.tokenizers.special_ids import PAD
from regard.train.optimizer import paper_learning_rate

POSITIONS: tuple[Position, ...] = get_args(Position)
ORDERS: tuple[NormOrder, ...] = get_args(NormOrder)

every_kind = pytest.mark.parametrize("position", POSITIONS)
every_order = pytest.mark.parametrize("order", ORDERS)

SRC = torch.tensor([[3, 4, 5], [6, 7, PAD]])
TGT = torch.tensor([[1, 8, 9, 10], [1, 2, PAD, PAD]])


def test_more_steps_than_the_capacity_is_an_error(small: Any) -> None:
    model = small.model("transformer")
    state = model.begin(torch.tensor([[3]]), 1)
    model.step(torch.tensor([1]), state)
    with pytest.raises(ValueError, match="room for only 1"):
        model.step(torch.tensor([1]), state)


@every_order
@given(data=st.data(), src=st.lists(st.integers(1, 11), min_size=1, max_size=7))
@settings(max_examples=10, deadline=None)
def test_without_positions_the_encoder_is_permutation_equivariant(
    small: Any, order: NormOrder, data: Any, src: list[int]
) -> None:
    model = small.model("transformer", position="none", norm_order=order)
    order_M = torch.tensor(data.draw(st.permutations(range(len(src)))))
    ids = torch.tensor([src])
    small.close(model.encode(ids[:, order_M]), model.encode(ids)[:, order_M])


@pytest.mark.parametrize("position", [p for p in POSITIONS if p != "none"])
def test_with_positions_it_is_not(small: Any, position: Position) -> None:
    model = small.model("transformer", position=position)
    ids = torch.tensor([[3, 4, 5, 6]])
    assert (model.encode(ids.flip(1)) - model.encode(ids).flip(1)).abs().max() > 1e-3


def test_learned_positions_have_a_limit(small: Any) -> None:
    with pytest.raises(ValueError, match="33 tokens, but this model has learned positions for only 32"):
        small.model("transformer", position="learned")(torch.tensor([[3] * 33]), torch.tensor([[1]]))


def test_sinusoids_have_no_limit(small: Any) -> None:
    assert small.model("transformer")(torch.tensor([[3] * 300]), torch.tensor([[1] * 270])).isfinite().all()


def test_taps_have_their_names(small: Any) -> None:
    """The explorer and users depend on these names."""
    paths = set(tap_paths(small.model("transformer")))
    for layer in ("encoder.0", "decoder.1"):
        inner = {"q", "k", "v", "scores", "weights", "head_out", "attn_out"}
        assert {f"{layer}.attention.{name}" for name in inner} <= paths
        assert {f"{layer}.ffn.ffn_hidden", f"{layer}.around_ffn.resid", f"{layer}.around_ffn.normed"} <= paths


def test_an_intervention_changes_the_output(small: Any) -> None:
    """A head that attends to the first source token only outputs the value of that token."""
    model = small.model("transformer")
    plain = model(SRC, TGT)

    def first_only(path: str, weights: Tensor) -> Tensor:
        changed = torch.zeros_like(weights)
        changed[..., 0] = 1
        return changed

    with hook_taps(model, {"decoder.0.cross.weights": first_only}), record(model, "decoder.0.cross.head_out") as trace:
        changed = model(SRC, TGT)
    assert (changed - plain).abs().max() > 1e-3
    value = model.decoder[0].cross.keys_and_values(model.encode(SRC))[1]
    small.close(trace["decoder.0.cross.head_out"], value[:, :, :1].expand(-1, -1, 4, -1))
    assert torch.equal(model(SRC, TGT), plain)


def test_hooks_are_removed_when_the_model_fails(small: Any) -> None:
    model = small.model("transformer")
    with pytest.raises(IndexError), record(model):
        model(torch.tensor([[small.vocabulary + 5]]), TGT[:1])
    assert not any(module.hooked for module in model.modules() if isinstance(module, Tap))


@every_kind
@pytest.mark.parametrize("norm", ["layernorm", "rmsnorm"])
def test_computing_in_bf16_keeps_float32_weights_and_gradients(small: Any, position: Position, norm: str) -> None:
    torch.manual_seed(0)
    sizes = {"d_model": 32, "n_heads": 4, "d_ff": 64, "dropout": 0.0}
    model = Transformer(small.config("transformer", **sizes, position=position, norm=norm))

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
    config = TransformerConfig(d_model=d_model, d_ff=512, n_encoder_layers=1, n_decoder_layers=1,
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
def test_initial_positions_differ(small: Any, position: Position) -> None:
    torch.manual_seed(0)
    model = Transformer(small.config("transformer", position=position, d_model=32, n_heads=8))
    for positions in (model.src_positions, model.tgt_positions):
        (table,) = positions.parameters()
        assert table.std().item() == pytest.approx(0.02, rel=0.2)


def test_without_initialising_no_random_number_is_drawn(small: Any) -> None:
    torch.manual_seed(0)
    before = torch.get_rng_state()
    Transformer(small.config("transformer"), initialise=False)
    assert torch.equal(torch.get_rng_state(), before)
    Transformer(small.config("transformer"))
    assert not torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(("tie_embeddings", "tables"), [("all", 1), ("output", 2), ("none", 3)])
def test_sharing(small: Any, tie_embeddings: TiedEmbeddings, tables: int) -> None:
    model = Transformer(small.config("transformer", tie_embeddings=tie_embeddings))
    assert (model.src_embedding is model.tgt_embedding) == (tie_embeddings == "all")
    assert (model.output is model.tgt_embedding) == (tie_embeddings != "none")
    layers = sum(p.numel() for stack in (model.encoder, model.decoder) for p in stack.parameters())
    assert sum(p.numel() for p in model.parameters()) == layers + tables * small.vocabulary * 8
    model(SRC, TGT).sum().backward()
    assert all(p.grad is not None for p in model.parameters())


def test_two_vocabularies(small: Any) -> None:
    model = Transformer(
        small.config("transformer", tie_embeddings="output", src_vocab_size=20, tgt_vocab_size=9)
    ).eval()
    logits = model(torch.tensor([[19, 15]]), torch.tensor([[8, 1, 2]]))
    assert logits.shape == (1, 3, 9)


@every_order
def test_dropout_applies_to_the_sublayer_output_and_not_to_the_residual(order: NormOrder) -> None:
    """The paper, section 5.4: on the output of each sublayer, before it is added and normalised."""
    torch.manual_seed(0)
    around = Residual(8, order, "layernorm", dropout=0.5)
    x = torch.randn(50, 8)
    with record(around, "resid") as trace:
        around.after(x, torch.ones_like(x))
    added = trace["resid"] - x
    assert 120 < (added.abs() < 1e-6).sum() < 280
    torch.testing.assert_close(added.abs().amax(), torch.tensor(2.0))


def test_dropout_applies_to_the_embeddings(small: Any) -> None:
    torch.manual_seed(0)
    model = Transformer(small.config("transformer", dropout=0.5))
    with record(model, "*_embedded") as trace:
        model(SRC, TGT)
    assert all((trace[path] == 0).float().mean() > 0.2 for path in ("src_embedded", "tgt_embedded"))


def test_attention_and_activation_dropout_apply_to_weights_and_activations(small: Any) -> None:
    model = Transformer(small.config("transformer", dropout=0.0, attention_dropout=0.25, activation_dropout=0.5))
    for module in model.modules():
        if isinstance(module, MultiHeadAttention):
            assert module.dropout.rate == 0.25
    assert {layer.ffn.dropout.rate for layer in (*model.encoder, *model.decoder)} == {0.5}
    assert model.dropout.rate == 0


def test_state_dict_has_weights_only_and_loads_into_another(small: Any) -> None:
    model = small.model("transformer", norm_order="pre")
    other = Transformer(small.config("transformer", norm_order="pre")).double().eval()
    other.load_state_dict(model.state_dict())
    small.close(other(SRC, TGT), model(SRC, TGT))
    assert not any("table" in name or "slope" in name for name in model.state_dict())


def test_the_papers_learning_rate_peaks_at_7e_4() -> None:
    assert paper_learning_rate(512, 4000) == pytest.approx(512**-0.5 * 4000**-0.5)
    assert paper_learning_rate(512, 4000) == pytest.approx(6.99e-4, rel=1e-3)
