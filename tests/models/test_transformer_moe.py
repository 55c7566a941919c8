"""The Transformer with experts in the place of its feed-forward networks."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from regard.config import DecodeConfig, MixtureConfig, ModelConfig
from regard.core.moe import mixtures, rebalance
from regard.core.taps import record
from regard.decode.engine import build_searcher
from regard.decode.search import search
from regard.errors import ConfigError
from regard.files import atomic_folder
from regard.folder import ModelDescription, read_description, write_model
from regard.interop.ctranslate2 import export_ctranslate2
from regard.models.transformer import PAD, Transformer

VOCABULARY = 12
sentence = st.lists(st.integers(1, VOCABULARY - 1), min_size=1, max_size=6)
few = settings(max_examples=10, deadline=None)


def small_config(**changes: Any) -> ModelConfig:
    sizes: dict[str, Any] = {
        "d_model": 8, "n_heads": 2, "d_ff": 16, "n_encoder_layers": 2, "n_decoder_layers": 2, "ffn": "moe",
        "src_vocab_size": VOCABULARY, "tgt_vocab_size": VOCABULARY,
        "moe": MixtureConfig(n_experts=4, n_active=2, n_shared=1, d_ff=6),
    }  # fmt: skip
    return ModelConfig(**{**sizes, **changes})


@functools.cache
def model_of() -> Transformer:
    torch.manual_seed(0)
    model = Transformer(small_config()).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    return model.requires_grad_(False)


def close(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-12)


def batch(sentences: list[list[int]], more: int = 0) -> Tensor:
    width = max(map(len, sentences)) + more
    return torch.tensor([ids + [PAD] * (width - len(ids)) for ids in sentences])


@pytest.mark.parametrize("kind", ["relu", "swiglu"])
def test_one_expert_equals_the_dense_model(kind: Any) -> None:
    torch.manual_seed(1)
    dense = Transformer(small_config(ffn=kind)).double().eval()
    alone = MixtureConfig(n_experts=1, n_active=1, n_shared=0, kind=kind)
    model = Transformer(small_config(moe=alone)).double().eval()
    weights = {}
    for name, parameter in dense.named_parameters():
        path, part, last = name.rpartition("ffn.")[0], *name.split(".")[-2:]
        in_ffn = ".ffn." in name
        weights[f"{path}ffn.experts.{part}_{last}" if in_ffn else name] = parameter[None] if in_ffn else parameter
    left_out = model.load_state_dict(weights, strict=False)
    assert {name.rpartition(".ffn.")[2] for name in left_out.missing_keys if "embedding" not in name} <= {
        "gate.weight",
        "gate.correction_E",
        "output.weight",
    }
    assert left_out.unexpected_keys == []
    src, tgt = batch([[3, 4, 5], [6, 7]]), batch([[1, 2], [1, 8]])
    close(model(src, tgt), dense(src, tgt))


@given(src=sentence, past=sentence, one=sentence, other=sentence)
@few
def test_future_tokens_never_change_past_logits(
    src: list[int], past: list[int], one: list[int], other: list[int]
) -> None:
    model = model_of()
    first, second = (model(batch([src]), batch([past + future])) for future in (one, other))
    close(first[:, : len(past)], second[:, : len(past)])


@given(pairs=st.lists(st.tuples(sentence, sentence), min_size=1, max_size=4), more=st.integers(0, 4))
@few
def test_padding_and_batch_mates_are_irrelevant(pairs: list[tuple[list[int], list[int]]], more: int) -> None:
    model = model_of()
    together = model(batch([src for src, _ in pairs], more), batch([tgt for _, tgt in pairs], more))
    for row, (source, target) in enumerate(pairs):
        close(together[row, : len(target)], model(batch([source]), batch([target]))[0])


def test_cached_steps_equal_the_whole() -> None:
    model, src, tgt = model_of(), batch([[3, 4, 5], [6, 7]]), torch.tensor([[1, 2, 3, 4], [1, 8, 9, 10]])
    state = model.begin(src, 4)
    close(torch.stack([model.step(tgt[:, place], state) for place in range(4)], dim=1), model(src, tgt))


def test_a_search_falls_back_on_the_model_itself() -> None:
    torch.manual_seed(3)
    model = Transformer(small_config()).eval().requires_grad_(False)
    assert build_searcher(model, "float32") is model
    found = search(model, [[4, 5, 6], [7]], DecodeConfig(beam=3), torch.device("cpu"))
    assert [len(one) for one in found] == [1, 1]


def test_taps_have_the_shapes_of_the_others() -> None:
    with record(model_of(), "*.ffn.*") as seen:
        model_of()(batch([[3, 4, 5]]), batch([[1, 2]]))
    assert seen["encoder.0.ffn.router"].shape == (1, 3, 4)
    assert seen["decoder.1.ffn.ffn_hidden"].shape == (1, 2, 2 * 6)
    assert seen["decoder.1.ffn.ffn_out"].shape == (1, 2, 8)
    assert seen["decoder.1.ffn.shared.ffn_hidden"].shape == (1, 2, 6)


def test_the_report_has_every_layer() -> None:
    model = Transformer(small_config()).train()
    model(batch([[3, 4, 5], [6, 7]]), batch([[1, 2], [1, 8]]))
    report = rebalance(model)
    assert report is not None
    assert (
        list(report.tokens)
        == list(mixtures(model))
        == [f"{side}.{layer}.ffn" for side in ("encoder", "decoder") for layer in (0, 1)]
    )
    assert [sum(loads) for loads in report.tokens.values()] == [12, 12, 8, 8]


def test_experts_without_a_size_have_the_models() -> None:
    model = Transformer(small_config(moe=MixtureConfig(n_experts=2)))
    assert model.encoder[0].ffn.experts.down_weight.shape == (2, 8, 16)
    assert model.encoder[0].ffn.shared.down.weight.shape == (8, 16)


def test_first_values_are_xaviers_expert_by_expert() -> None:
    torch.manual_seed(0)
    model = Transformer(small_config(d_model=64, d_ff=128, moe=MixtureConfig(n_experts=4, kind="relu")))
    experts = model.encoder[0].ffn.experts
    for matrix in [*experts.up_weight, *experts.down_weight]:
        assert matrix.std().item() == pytest.approx((2 / (64 + 128)) ** 0.5, rel=0.05)
    assert not experts.up_bias.any()
    assert not model.encoder[0].ffn.gate.correction_E.any()


def test_the_export_to_ctranslate2_says_that_it_has_none(tmp_path: Path) -> None:
    config = small_config()
    weights = {name: parameter.detach().numpy() for name, parameter in Transformer(config).named_parameters()}
    description = ModelDescription(config, DecodeConfig(), "en", "de", False, {"tokenizer.model": b""})
    with atomic_folder(tmp_path / "m") as folder:
        write_model(folder, description, weights, "")
    with pytest.raises(ConfigError, match="ffn = 'moe', which the export to CTranslate2 does not know"):
        export_ctranslate2(tmp_path / "m", tmp_path / "out")
    assert read_description(tmp_path / "m").model == config
