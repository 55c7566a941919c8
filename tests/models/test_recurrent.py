"""What is specific to the recurrent model: its components, and its encoding of a sentence."""

from __future__ import annotations

from typing import Any, get_args

import pytest
import torch
from torch import nn

from regard.config import PRESETS, Bidirectional, CellKind, RecurrentAttention, RecurrentConfig, TiedEmbeddings
from regard.core.linear import Linear
from regard.core.recurrent import Recurrence
from regard.core.taps import hook_taps, record, tap_paths
from regard.models.recurrent import RecurrentModel, build_recurrent_attention
from regard.tokenizers.special_ids import PAD

CELLS: tuple[CellKind, ...] = get_args(CellKind)
ATTENTIONS: tuple[RecurrentAttention, ...] = get_args(RecurrentAttention)

every_cell = pytest.mark.parametrize("cell", CELLS)
every_attention = pytest.mark.parametrize("attention", ATTENTIONS)


def test_without_attention_the_sentence_is_one_vector(small: Any) -> None:
    """Two sentences with the same last state of the encoder are equal for the decoder."""
    model = small.model("recurrent", attention="none", bidirectional="none")
    tgt = torch.tensor([[1, 2, 3, 4]])
    with record(model, "summary") as seen:
        long = model(torch.tensor([[3, 4, 5, 6, 7]]), tgt)
    assert seen["summary"].shape == (1, 6)
    with hook_taps(model, {"summary": lambda _, x: seen["summary"]}):
        small.close(model(torch.tensor([[8]]), tgt), long)
    assert not [path for path in tap_paths(model) if "cross" in path]


def test_the_summary_is_the_last_state_of_each_direction(small: Any) -> None:
    model = small.model("recurrent", cell="gru", attention="none", n_encoder_layers=1)
    with record(model, "summary", "encoder.0.states") as seen:
        model(torch.tensor([[3, 4, 5, PAD, PAD, PAD]]), torch.tensor([[1]]))
    states_MS = seen["encoder.0.states"][0]
    small.close(seen["summary"][0], torch.cat([states_MS[2, :6], states_MS[0, 6:]]))  # not what stands at the padding


def test_gnmt_is_the_papers() -> None:
    """Wu et al. 2016, section 3, at a fraction of the size."""
    model = RecurrentModel(RecurrentConfig(**{**PRESETS["gnmt"], "d_model": 4}, src_vocab_size=9, tgt_vocab_size=9))
    sizes = [layer.forwards.inputs.in_features for layer in model.encoder]  # type: ignore[union-attr]
    assert [layer.backwards is not None for layer in model.encoder] == [True] + [False] * 7
    assert sizes == [4, 8] + [4] * 6
    assert [layer.cross is not None for layer in model.decoder] == [True] + [False] * 7
    assert [layer.context.in_features for layer in model.decoder] == [4] * 8  # type: ignore[union-attr]
    assert model.deep_output is None


def test_residuals_start_at_the_third_layer(small: Any) -> None:
    """A layer with zero output passes on its input from the third layer on; below, it passes on zero."""
    model = small.model("recurrent", n_encoder_layers=4, n_decoder_layers=4, deep_output=False)
    src, tgt = torch.tensor([[3, 4, 5]]), torch.tensor([[1, 2]])

    def silence(*layers: str) -> dict[str, Any]:
        return {f"{layer}.states": lambda _, x: torch.zeros_like(x) for layer in layers}

    with hook_taps(model, silence("encoder.2", "encoder.3")), record(model, "encoder.1.states", "memory") as seen:
        model(src, tgt)
    small.close(seen["memory"], seen["encoder.1.states"])
    with hook_taps(model, silence("decoder.2", "decoder.3")), record(model, "decoder.1.states") as seen:
        small.close(model.hidden(src, tgt), seen["decoder.1.states"])
    with (
        hook_taps(model, silence("encoder.1")),
        record(model, "memory", "encoder.2.states", "encoder.3.states") as seen,
    ):
        model(src, tgt)
    small.close(seen["memory"], seen["encoder.2.states"] + seen["encoder.3.states"])


def test_every_layer_of_the_decoder_gets_the_context(small: Any) -> None:
    model = small.model("recurrent", cell="gru")
    src, tgt = torch.tensor([[3, 4, 5]]), torch.tensor([[1, 2]])
    taps = [f"decoder.{number}.states" for number in range(3)]
    with record(model, *taps) as before:
        model(src, tgt)
    for number in range(1, 3):
        context = model.decoder[number].context
        kept = context.weight.clone()
        context.weight.zero_()
        with record(model, *taps) as after:
            model(src, tgt)
        context.weight.copy_(kept)
        assert (before[taps[number]] - after[taps[number]]).abs().max() > 1e-6
        small.close(before[taps[0]], after[taps[0]])


@pytest.mark.parametrize(("bidirectional", "expected"), [("none", [6, 6, 6]), ("first", [12, 6, 6]), ("all", [12] * 3)])
def test_directions(small: Any, bidirectional: Bidirectional, expected: list[int]) -> None:
    model = small.model("recurrent", attention="dot", bidirectional=bidirectional, n_encoder_layers=3)
    with record(model, "encoder.*.states") as seen:
        logits = model(torch.tensor([[3, 4, 5]]), torch.tensor([[1, 2]]))
    assert [seen[f"encoder.{number}.states"].shape[-1] for number in range(3)] == expected
    assert logits.shape == (1, 2, small.vocabulary)


@pytest.mark.parametrize("tie_embeddings", get_args(TiedEmbeddings))
def test_sharing(small: Any, tie_embeddings: TiedEmbeddings) -> None:
    model = RecurrentModel(small.config("recurrent", tie_embeddings=tie_embeddings))
    assert (model.src_embedding is model.tgt_embedding) == (tie_embeddings == "all")
    assert (model.output is model.tgt_embedding) == (tie_embeddings != "none")


@every_cell
def test_initialisation(small: Any, cell: CellKind) -> None:
    torch.manual_seed(0)
    model = RecurrentModel(small.config("recurrent", cell=cell, d_model=32))
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
def test_in_bf16_every_gradient_is_float32_and_near(small: Any, cell: CellKind, attention: RecurrentAttention) -> None:
    torch.manual_seed(0)
    model = RecurrentModel(small.config("recurrent", cell=cell, attention=attention, dropout=0.0))
    src, tgt = torch.tensor([[3, 4, 5], [6, 7, PAD]]), torch.tensor([[1, 2, 8], [1, 5, PAD]])
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


def test_a_whole_model_in_bf16_translates(small: Any) -> None:
    model = RecurrentModel(small.config("recurrent")).eval().requires_grad_(False)
    src, tgt = torch.tensor([[3, 4, 5], [6, 7, PAD]]), torch.tensor([[1, 2, 8], [1, 5, 4]])
    wanted = model(src, tgt)
    model = model.bfloat16()
    state = model.begin(src, 3)
    logits = torch.stack([model.step(tokens, state) for tokens in tgt.unbind(1)], dim=1)
    torch.testing.assert_close(logits.float(), wanted, rtol=0, atol=0.1)


def test_only_the_expected_linear_layers_have_no_bias(small: Any) -> None:
    """A product that is added to one with a bias has no bias."""
    model = RecurrentModel(small.config("recurrent"))
    without = {name for name, module in model.named_modules() if isinstance(module, Linear) and module.bias is None}
    assert {name.rpartition(".")[2] for name in without} == {"recurrent", "context", "from_state"}


def test_an_unknown_attention_is_refused() -> None:
    config = RecurrentConfig(d_model=8)
    object.__setattr__(config, "attention", "location")  # past the check of the settings
    with pytest.raises(AssertionError, match="'location'"):
        build_recurrent_attention(config, 8)
