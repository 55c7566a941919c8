"""Properties of DeepSeek's decoder for any text, with hypothesis, in float64."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from regard.config import DecodeConfig, DeepSeekConfig, MixtureConfig
from regard.core.feedforward import FeedForward
from regard.core.moe import LoadReport, MixtureOfExperts, rebalance
from regard.core.taps import record, tap_paths
from regard.errors import ConfigError
from regard.model_folder.atomic import atomic_folder
from regard.model_folder.folder import ModelDescription, write_model
from regard.models.deepseek import DeepSeek
from regard.pipelines.text_generator import TextGenerator
from regard.tokenizers.characters import CharacterTokenizer

VOCABULARY = 12
text = st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=7)
few = settings(max_examples=15, deadline=None)


def small_config(**changes: Any) -> DeepSeekConfig:
    sizes: dict[str, Any] = {
        "d_model": 8, "n_heads": 2, "d_ff": 16, "n_layers": 3, "n_dense_layers": 1, "q_rank": 6, "kv_rank": 5,
        "head_size": 4, "rotary_size": 2, "value_size": 3, "vocab_size": VOCABULARY,
        "moe": MixtureConfig(
            n_experts=6, experts_per_token=2, n_groups=3, groups_per_token=2, d_ff=4, routed_scaling_factor=1.5
        ),
    }  # fmt: skip
    return DeepSeekConfig(**{**sizes, **changes})


@functools.cache
def model_of(q_rank: int = 6) -> DeepSeek:
    torch.manual_seed(0)
    model = DeepSeek(small_config(q_rank=q_rank)).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.5)
    return model.requires_grad_(False)


def close(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-12)


@given(past=text, one=text, other=text)
@few
def test_future_tokens_never_change_past_logits(past: list[int], one: list[int], other: list[int]) -> None:
    model = model_of()
    first, second = (model(torch.tensor([past + future])) for future in (one, other))
    close(first[:, : len(past)], second[:, : len(past)])


def test_past_tokens_and_their_order_do_change_the_logits() -> None:
    model = model_of()
    logits = model(torch.tensor([[1, 2, 3, 4]]))[0, -1]
    assert (model(torch.tensor([[5, 2, 3, 4]]))[0, -1] - logits).abs().max() > 1e-6
    assert (model(torch.tensor([[2, 1, 3, 4]]))[0, -1] - logits).abs().max() > 1e-6


@given(texts=st.lists(text, min_size=1, max_size=4), more=st.integers(0, 4), filler=st.integers(0, VOCABULARY - 1))
@few
def test_padding_and_batch_mates_are_irrelevant(texts: list[list[int]], more: int, filler: int) -> None:
    model = model_of()
    width = max(map(len, texts)) + more
    together = model(torch.tensor([ids + [filler] * (width - len(ids)) for ids in texts]))
    for row, ids in enumerate(texts):
        close(together[row, : len(ids)], model(torch.tensor([ids]))[0])


@pytest.mark.parametrize("q_rank", [0, 6])
@given(texts=st.lists(st.lists(st.integers(0, VOCABULARY - 1), min_size=7, max_size=7), min_size=1, max_size=3),
       first=st.integers(0, 6))  # fmt: skip
@few
def test_cached_equals_uncached(q_rank: int, texts: list[list[int]], first: int) -> None:
    """A first part at once, the rest token by token."""
    model, ids = model_of(q_rank), torch.tensor(texts)
    state = model.begin(len(texts), 7)
    parts = [model.project(model.read(ids[:, :first], state))] if first else []
    for place in range(first, 7):
        assert state.length == place
        parts.append(model.step(ids[:, place], state)[:, None])
    close(torch.cat(parts, dim=1), model(ids))


def test_the_rows_of_a_state_can_be_reordered() -> None:
    model, ids = model_of(), torch.tensor([[1, 2, 3], [4, 5, 6]])
    state = model.begin(2, 3)
    model.read(ids[:, :2], state)
    rows = torch.tensor([1, 0, 1])
    state.reorder(rows)
    close(model.step(ids[rows, 2], state), model(ids)[rows, 2])


def test_the_cache_is_the_latent_and_the_rotary_key() -> None:
    state = model_of().begin(2, 10)
    assert [tuple(cache.latent_RTC.shape) for cache in state.layers] == [(2, 10, 5 + 2)] * 3


def test_the_first_layers_are_dense() -> None:
    kinds = [type(layer.ffn) for layer in model_of().layers]
    assert kinds == [FeedForward, MixtureOfExperts, MixtureOfExperts]
    model = DeepSeek(small_config(n_dense_layers=0, tie_embeddings=True))
    assert all(isinstance(layer.ffn, MixtureOfExperts) for layer in model.layers)
    assert model.output is model.embedding
    assert not any(name.endswith("bias") for name, _ in model.named_parameters())


def test_taps() -> None:
    model, ids = model_of(), torch.tensor([[1, 2, 3], [4, 5, 6]])
    with record(model) as seen:
        logits = model(ids)
    assert set(seen.paths()) == set(tap_paths(model))
    assert seen["layers.0.attention.weights"].shape == (2, 2, 3, 3)
    assert seen["layers.0.attention.latent"].shape == (2, 3, 7)
    assert seen["layers.1.ffn.router"].shape == (2, 3, 6)
    assert seen["embedded"].shape == (2, 3, 8)
    close(seen["logits"], logits)
    future = torch.ones(3, 3, dtype=torch.bool).triu(1)
    assert float(seen["layers.2.attention.weights"][:, :, future].abs().max()) == 0


def test_hidden_times_the_output_is_the_logits_and_bf16_keeps_float32_weights() -> None:
    model, ids = model_of(), torch.tensor([[1, 2, 3]])
    close(model(ids), model.hidden(ids) @ model.output.weight.T)
    assert model.longest_text is None
    rough = DeepSeek(small_config())
    rough.compute_dtype = torch.bfloat16
    assert rough.hidden(ids).dtype == torch.bfloat16
    assert rough.step(ids[:, 0], rough.begin(1, 1)).dtype == torch.bfloat16
    assert rough.output.weight.dtype == torch.float32


def test_initial_values() -> None:
    torch.manual_seed(0)
    model = DeepSeek(DeepSeekConfig(vocab_size=50))
    for name, parameter in model.named_parameters():
        if name.endswith(("norm.weight", "correction_E")):
            assert bool((parameter == float(name.endswith("norm.weight"))).all()), name
        else:
            assert parameter.std().item() == pytest.approx(0.5 / 16, rel=0.1), name


def test_it_learns_and_balances_its_experts() -> None:
    """In plain torch: cyclic text from a random start; the routing biases are updated without a gradient."""
    torch.manual_seed(0)
    config = small_config(d_model=16, vocab_size=8, moe=MixtureConfig(n_experts=4, experts_per_token=2, d_ff=8))
    model = DeepSeek(config).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    loads = LoadReport({"layers.1.ffn": (0,) * 4, "layers.2.ffn": (0,) * 4})
    for _ in range(60):
        ids = (torch.randint(0, 8, (16, 1)) + torch.arange(9)) % 8
        loss = F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        report = rebalance(model)
        assert report is not None
        loads = loads + report
    assert loss.item() < 0.1
    assert sum(loads.tokens["layers.1.ffn"]) == 60 * 16 * 8 * 2
    correction = model.layers[1].ffn.gate.correction_E
    assert 0 < correction.abs().max() <= 60 * 0.001 + 1e-6
    with torch.no_grad():
        state = model.eval().begin(1, 8)
        token = torch.tensor([3])
        for expected in (4, 5, 6, 7, 0, 1):
            token = model.step(token, state).argmax(-1)
            assert token.item() == expected


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"n_experts": 6, "n_groups": 4}, "n_groups must divide n_experts"),
        ({"n_groups": 2, "groups_per_token": 3}, "groups_per_token must not be more"),
        (
            {"n_experts": 8, "n_groups": 4, "groups_per_token": 1, "experts_per_token": 3},
            "exceeds the experts a token may choose from",
        ),
        ({"experts_per_token": 1}, "the router gets no gradient"),
    ],
)
def test_impossible_mixtures_are_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        MixtureConfig(**changes)


def test_an_odd_rotary_size_is_refused() -> None:
    with pytest.raises(ConfigError, match="must be even"):
        small_config(rotary_size=3)


def test_a_text_generator_generates_and_traces_with_it(tmp_path: Path) -> None:
    tokenizer = CharacterTokenizer.of(["to be or not"])
    config = small_config(vocab_size=tokenizer.size)
    torch.manual_seed(0)
    weights = {name: parameter.detach().numpy() for name, parameter in DeepSeek(config).named_parameters()}
    description = ModelDescription(config, DecodeConfig(), "", "", False, tokenizer.files())
    with atomic_folder(tmp_path / "m") as folder:
        write_model(folder, description, weights, "")
    writer = TextGenerator(tmp_path / "m")
    assert isinstance(writer.model, DeepSeek)
    text = writer("to be", max_tokens=8)
    assert text.startswith("to be")
    assert text == writer("to be", max_tokens=8)
    assert "layers.1.ffn.router" in writer.trace("to be").values
