"""GPT: predictions depend on earlier tokens only."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.config import PRESETS, VOCABULARIES, FamilyConfig, GptConfig, convert
from regard.core.taps import record, tap_paths
from regard.errors import ConfigError
from regard.models.build import build_model, translation_model
from regard.models.gpt import Gpt
from regard.models.ledger import ledger

SIZES = {"d_model": 12, "n_heads": 2, "d_ff": 20, "n_layers": 2, "max_positions": 10, "vocab_size": 17}
IDS = st.lists(st.integers(0, 16), min_size=1, max_size=10)


def shaken(**changes: object) -> Gpt:
    torch.manual_seed(1)
    model = Gpt(GptConfig(**{**SIZES, **changes})).double().eval().requires_grad_(False)  # type: ignore[arg-type]
    for parameter in model.parameters():
        parameter.add_(torch.randn_like(parameter) * 0.3)
    return model


MODEL = shaken()


@settings(deadline=None)
@given(ids=IDS, data=st.data())
def test_the_future_does_not_change_the_past(ids: list[int], data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(ids) - 1))
    changed = ids[: place + 1] + data.draw(st.lists(st.integers(0, 16), max_size=9 - place))
    one, other = MODEL(torch.tensor([ids])), MODEL(torch.tensor([changed]))
    torch.testing.assert_close(one[:, : place + 1], other[:, : place + 1], rtol=0, atol=1e-12)


@settings(deadline=None)
@given(texts=st.lists(IDS, min_size=1, max_size=3), pad=st.integers(0, 16))
def test_batch_mates_and_padding_are_irrelevant(texts: list[list[int]], pad: int) -> None:
    longest = max(map(len, texts))
    together = MODEL(torch.tensor([ids + [pad] * (longest - len(ids)) for ids in texts]))
    for row, ids in zip(together, texts, strict=True):
        torch.testing.assert_close(row[: len(ids)], MODEL(torch.tensor([ids]))[0], rtol=0, atol=1e-12)


@settings(deadline=None)
@given(ids=st.lists(st.integers(0, 16), min_size=2, max_size=10), data=st.data())
def test_reading_in_parts_equals_reading_at_once(ids: list[int], data: st.DataObject) -> None:
    first = data.draw(st.integers(0, len(ids) - 1))
    ids_RL = torch.tensor([ids, ids[::-1]])
    whole = MODEL(ids_RL)
    state = MODEL.begin(2, len(ids))
    if first:
        torch.testing.assert_close(MODEL.project(MODEL.read(ids_RL[:, :first], state)), whole[:, :first])
    for place in range(first, len(ids)):
        torch.testing.assert_close(MODEL.step(ids_RL[:, place], state), whole[:, place], rtol=0, atol=1e-12)
    assert state.length == len(ids)


def test_rows_can_be_reordered() -> None:
    ids_RL = torch.tensor([[1, 2, 3], [4, 5, 6]])
    state = MODEL.begin(2, 4)
    MODEL.read(ids_RL, state)
    state.reorder(torch.tensor([1, 1, 0]))
    found = MODEL.step(torch.tensor([7, 8, 9]), state)
    wanted = MODEL(torch.tensor([[4, 5, 6, 7], [4, 5, 6, 8], [1, 2, 3, 9]]))[:, -1]
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)


def test_a_text_longer_than_the_context_is_refused() -> None:
    with pytest.raises(ValueError, match="11 tokens"):
        MODEL(torch.ones(1, 11, dtype=torch.int64))
    assert MODEL.longest_text == 10


def test_the_output_is_the_embeddings() -> None:
    hidden = MODEL.hidden(torch.tensor([[1, 2]]))
    torch.testing.assert_close(MODEL.project(hidden), hidden @ MODEL.embedding.weight.T)
    assert MODEL.output is MODEL.embedding


def test_taps() -> None:
    ids = torch.tensor([[1, 2, 3]])
    with record(MODEL) as seen:
        logits = MODEL(ids)
    assert seen.kernel == "reference"
    assert set(seen.paths()) == set(tap_paths(MODEL))
    assert torch.equal(seen["logits"], logits)
    weights = seen["layers.1.attention.weights"]
    assert weights.shape == (1, 2, 3, 3)
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(1, 2, 3).double())
    assert not weights.triu(1).any()
    assert seen["embedded"].shape == seen["last"].shape == (1, 3, 12)
    torch.testing.assert_close(logits, MODEL(ids))


def test_precision_of_the_activations() -> None:
    model = Gpt(GptConfig(**SIZES))  # type: ignore[arg-type]
    model.compute_dtype = torch.bfloat16
    ids = torch.tensor([[1, 2, 3]])
    hidden = model.hidden(ids)
    assert hidden.dtype == torch.bfloat16
    model.project(hidden).sum().backward()
    assert all(p.grad is not None and p.grad.dtype == torch.float32 for p in model.parameters())
    state = model.eval().begin(1, 3)
    assert model.read(ids, state).dtype == torch.bfloat16


def test_initial_predictions_are_nearly_uniform_at_any_depth() -> None:
    """All tokens are about as likely, however deep the model is: what the layers add stays small."""
    torch.manual_seed(1)
    model = Gpt(GptConfig(**{**SIZES, "n_layers": 8, "d_model": 64})).eval().requires_grad_(False)  # type: ignore[arg-type]
    logits = model(torch.randint(17, (4, 10)))
    assert logits.std() < 0.5
    down, up = model.layers[0].ffn.down.weight, model.layers[0].ffn.up.weight  # type: ignore[union-attr]
    assert float(up.std() / down.std()) == pytest.approx(4.0, rel=0.2)  # type: ignore[operator, arg-type]


def test_it_can_learn() -> None:
    """It memorises a text, trained in plain torch."""
    torch.manual_seed(1)
    model = Gpt(GptConfig(**{**SIZES, "dropout": 0.0, "attention_dropout": 0.0}))  # type: ignore[arg-type]
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    ids = torch.tensor([[3, 1, 4, 1, 5, 9, 2, 6, 5, 3]])
    for _ in range(60):
        loss = torch.nn.functional.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss < 0.1


@pytest.mark.parametrize(("preset", "total"), [("gpt2", 124_439_808), ("gpt3", 174_604_259_328)])
def test_the_published_sizes(preset: str, total: int) -> None:
    config = convert(FamilyConfig, PRESETS[preset], preset).with_vocabulary(VOCABULARIES[preset])
    assert ledger(config).total == total


def test_it_does_not_translate() -> None:
    config = GptConfig(**SIZES)  # type: ignore[arg-type]
    assert isinstance(build_model(config), Gpt)
    with pytest.raises(ConfigError, match="a gpt model does not translate: it generates text, with regard generate"):
        translation_model(config)
    with pytest.raises(ConfigError, match=r"set model\.vocab_size"):
        ledger(GptConfig())
    with pytest.raises(ConfigError, match="does not divide"):
        GptConfig(n_heads=3)
