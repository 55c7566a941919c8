"""What must hold of T5 whatever the sentence, by hypothesis, in float64; what it is made of; that it learns."""

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from regard.config import PRESETS, VOCABULARIES, FamilyConfig, T5Config, convert, with_vocabulary
from regard.core.taps import record, tap_paths
from regard.errors import ConfigError
from regard.models.build import translation_model
from regard.models.ledger import ledger
from regard.models.t5 import T5
from regard.text.tokenizer import PAD

VOCABULARY = 12
KINDS: list[dict[str, Any]] = [{}, {"ffn": "geglu", "sharing": "inputs", "scale_output": False, "output_bias": True}]
every_kind = pytest.mark.parametrize("kind", [0, 1])
few = settings(max_examples=12, deadline=None)
sentence = st.lists(st.integers(1, VOCABULARY - 1), min_size=1, max_size=9)


def small_config(**changes: Any) -> T5Config:
    sizes = {"d_model": 8, "n_heads": 3, "head_size": 5, "d_ff": 12, "n_encoder_layers": 2, "n_decoder_layers": 2}
    buckets = {"n_buckets": 4, "max_distance": 6}  # so few that the sentences here reach the last
    return T5Config(**{**sizes, **buckets, "src_vocab_size": VOCABULARY, "tgt_vocab_size": VOCABULARY, **changes})


@functools.cache
def model_of(kind: int = 0) -> T5:
    torch.manual_seed(0)
    model = T5(small_config(**KINDS[kind])).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    return model.requires_grad_(False)


def batch(sentences: list[list[int]], width: int = 0) -> Tensor:
    width = max(width, *map(len, sentences), 1)
    return torch.tensor([ids + [PAD] * (width - len(ids)) for ids in sentences])


def close(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-12)


@every_kind
@given(src=sentence, past=sentence, one=sentence, other=sentence)
@few
def test_future_tokens_never_change_past_logits(
    kind: int, src: list[int], past: list[int], one: list[int], other: list[int]
) -> None:
    model = model_of(kind)
    first, second = (model(batch([src]), batch([past + future])) for future in (one, other))
    close(first[:, : len(past)], second[:, : len(past)])


@every_kind
@given(sentences=st.lists(st.tuples(sentence, sentence), min_size=1, max_size=3), more=st.integers(0, 3))
@few
def test_padding_and_batch_mates_are_irrelevant(
    kind: int, sentences: list[tuple[list[int], list[int]]], more: int
) -> None:
    model = model_of(kind)
    sources, targets = ([pair[side] for pair in sentences] for side in (0, 1))
    together = model(batch(sources, max(map(len, sources)) + more), batch(targets, max(map(len, targets)) + more))
    for row, (src, tgt) in enumerate(sentences):
        close(together[row, : len(tgt)], model(batch([src]), batch([tgt]))[0])


@every_kind
@given(sources=st.lists(sentence, min_size=2, max_size=3), steps=st.integers(1, 8), seed=st.integers(0, 99))
@few
def test_cached_steps_equal_the_whole_pass_however_rows_are_reordered(
    kind: int, sources: list[list[int]], steps: int, seed: int
) -> None:
    model = model_of(kind)
    generator = torch.Generator().manual_seed(seed)
    state = model.begin(batch(sources), steps)
    rows = torch.arange(len(sources))  # the sentence of each row
    written = torch.empty(len(sources), 0, dtype=torch.int64)
    for _ in range(steps):
        tokens = torch.randint(1, VOCABULARY, (len(rows),), generator=generator)
        written = torch.cat([written, tokens[:, None]], dim=1)
        close(model.step(tokens, state), model(batch([sources[i] for i in rows.tolist()]), written)[:, -1])
        chosen = torch.randint(len(rows), (len(rows) + 1,), generator=generator)
        state.reorder(chosen)
        rows, written = rows[chosen], written[chosen]


def test_the_order_of_words_matters_on_both_sides() -> None:
    model = model_of()
    logits = model(batch([[3, 4, 5]]), batch([[1, 2, 3]]))
    assert (model(batch([[4, 3, 5]]), batch([[1, 2, 3]])) - logits).abs().amax(dim=-1).min() > 1e-6
    assert (model(batch([[3, 4, 5]]), batch([[2, 1, 3]])) - logits)[0, -1].abs().max() > 1e-6


def test_scores_are_not_divided_and_shifting_a_text_changes_nothing_but_its_place() -> None:
    """Scores depend on distances alone: the same words farther to the right have the same scores among them."""
    model = model_of()
    with record(model, "encoder.0.attention.*") as trace:
        model.encode(batch([[3, 4, 5, 3, 4, 5]]))
    q, k = (trace[f"encoder.0.attention.{name}"] for name in "qk")
    scores = trace["encoder.0.attention.scores"][0]
    close(scores, (q @ k.mT)[0] + model.src_positions.bias(6, 6))
    close(scores[:, :3, :3], scores[:, 3:, 3:])


@every_kind
def test_taps(kind: int) -> None:
    model = model_of(kind)
    paths = tap_paths(model)
    assert {"src_embedded", "tgt_embedded", "memory", "logits", "decoder.1.cross.weights"} <= set(paths)
    with record(model) as trace:
        logits = model(batch([[3, 4, 5, 6]]), batch([[1, 2, 3]]))
    assert set(trace.paths()) == set(paths)  # every tap sees something
    close(trace["logits"], logits)
    assert trace["decoder.1.cross.weights"].shape == (1, 3, 3, 4)
    close(trace["encoder.1.attention.weights"].sum(dim=-1), torch.ones(1, 3, 4).double())


def test_the_loss_may_take_the_matrix_and_never_form_the_logits() -> None:
    from regard.train.loss import vocabulary_loss

    model = model_of(1)
    src, tgt = batch([[3, 4, 5]]), batch([[1, 2, 3]])
    wanted = torch.tensor([2, 3, 4])
    hidden = model.hidden(src, tgt)[0]
    found = vocabulary_loss(hidden, model.output.weight, wanted, bias_V=model.output_bias).nll
    logp = model(src, tgt)[0].log_softmax(-1)
    close(found, -logp[range(3), wanted].sum())


def test_first_values_give_even_guesses() -> None:
    torch.manual_seed(1)
    for changes in ({}, {"sharing": "inputs", "scale_output": False}):
        sizes = {"d_model": 64, "n_heads": 4, "head_size": 16, "d_ff": 128, "n_buckets": 32, "max_distance": 128}
        config = small_config(**(sizes | changes | {"src_vocab_size": 500, "tgt_vocab_size": 500}))
        model = T5(config).eval()
        ids = torch.randint(4, 500, (4, 12))
        with torch.inference_mode():
            logits = model(ids, ids.flip(0))
        assert 0.3 < logits.std() < 2.5
        assert logits.log_softmax(-1).exp().max() < 0.5


def test_it_learns_to_copy() -> None:
    torch.manual_seed(2)
    model = T5(small_config(d_model=32, head_size=8, n_heads=4, d_ff=64, dropout=0.0))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    src = torch.randint(4, VOCABULARY, (64, 5))
    tgt = torch.cat([torch.full((64, 1), 2), src], dim=1)
    for _ in range(100):
        logits = model(src, tgt[:, :-1])
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), src.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss < 0.1


def test_the_sizes_that_were_published() -> None:
    for name, millions in (("t5-small", 60.5), ("t5-base", 222.9)):
        config: FamilyConfig = with_vocabulary(convert(FamilyConfig, PRESETS[name], name), VOCABULARIES[name])
        assert ledger(config).total / 1e6 == pytest.approx(millions, abs=0.05)


def test_settings_that_cannot_be() -> None:
    with pytest.raises(ConfigError, match=r"max_distance = 4 must be more than half of model\.n_buckets = 8"):
        small_config(n_buckets=8, max_distance=4)
    with pytest.raises(ConfigError, match="one vocabulary"):
        small_config(src_vocab_size=13)
    assert isinstance(translation_model(small_config()), T5)
