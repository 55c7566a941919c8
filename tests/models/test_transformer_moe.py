"""The Transformer with experts instead of feed-forward networks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from regard.config import DecodeConfig, MixtureConfig
from regard.core.moe import mixtures, rebalance
from regard.core.taps import record
from regard.decode.model_engine import build_searcher
from regard.decode.search import search
from regard.errors import ConfigError
from regard.interop.ctranslate2 import export_ctranslate2
from regard.model_folder.atomic import atomic_folder
from regard.model_folder.folder import ModelDescription, read_description, write_model
from regard.models.transformer import PAD, Transformer

MIXTURE = MixtureConfig(n_experts=4, experts_per_token=2, n_shared_experts=1, d_ff=6)
SRC, TGT = torch.tensor([[3, 4, 5], [6, 7, PAD]]), torch.tensor([[1, 2], [1, 8]])


def transformer(small: Any, **changes: Any) -> Transformer:
    """As it is at first."""
    return Transformer(small.config("transformer", **({"ffn": "moe", "moe": MIXTURE} | changes)))


@pytest.mark.parametrize("kind", ["relu", "swiglu"])
def test_one_expert_equals_the_dense_model(small: Any, kind: Any) -> None:
    torch.manual_seed(1)
    dense = transformer(small, ffn=kind).double().eval()
    alone = MixtureConfig(n_experts=1, experts_per_token=1, n_shared_experts=0, kind=kind)
    model = transformer(small, moe=alone).double().eval()
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
    small.close(model(SRC, TGT), dense(SRC, TGT))


def test_a_search_falls_back_on_the_model_itself(small: Any) -> None:
    torch.manual_seed(3)
    model = transformer(small).eval().requires_grad_(False)  # of sizes that the engine does not support
    assert build_searcher(model, "float32") is model
    found = search(model, [[4, 5, 6], [7]], DecodeConfig(beam=3), torch.device("cpu"))
    assert [len(one) for one in found] == [1, 1]


def test_taps_have_the_shapes_of_the_others(small: Any) -> None:
    model = transformer(small)
    with record(model, "*.ffn.*") as seen:
        model(SRC[:1], TGT[:1])
    assert seen["encoder.0.ffn.router"].shape == (1, 3, 4)
    assert seen["decoder.1.ffn.ffn_hidden"].shape == (1, 2, 2 * 6)
    assert seen["decoder.1.ffn.ffn_out"].shape == (1, 2, 8)
    assert seen["decoder.1.ffn.shared.ffn_hidden"].shape == (1, 2, 6)


def test_the_report_has_every_layer(small: Any) -> None:
    model = transformer(small).train()
    model(SRC, TGT)
    report = rebalance(model)
    assert report is not None
    assert (
        list(report.tokens)
        == list(mixtures(model))
        == [f"{side}.{layer}.ffn" for side in ("encoder", "decoder") for layer in (0, 1)]
    )
    assert [sum(loads) for loads in report.tokens.values()] == [12, 12, 8, 8]


def test_experts_without_d_ff_have_that_of_the_model(small: Any) -> None:
    model = transformer(small, moe=MixtureConfig(n_experts=2))
    assert model.encoder[0].ffn.experts.down_weight.shape == (2, 8, 16)
    assert model.encoder[0].ffn.shared.down.weight.shape == (8, 16)


def test_initial_values_are_xavier_expert_by_expert(small: Any) -> None:
    torch.manual_seed(0)
    model = transformer(small, d_model=64, d_ff=128, moe=MixtureConfig(n_experts=4, kind="relu"))
    experts = model.encoder[0].ffn.experts
    for matrix in [*experts.up_weight, *experts.down_weight]:
        assert matrix.std().item() == pytest.approx((2 / (64 + 128)) ** 0.5, rel=0.05)
    assert not experts.up_bias.any()
    assert not model.encoder[0].ffn.gate.correction_E.any()


def test_the_export_to_ctranslate2_refuses_experts(small: Any, tmp_path: Path) -> None:
    model = transformer(small)
    weights = {name: parameter.detach().numpy() for name, parameter in model.named_parameters()}
    description = ModelDescription(model.config, DecodeConfig(), "en", "de", False, {"tokenizer.model": b""})
    with atomic_folder(tmp_path / "m") as folder:
        write_model(folder, description, weights, "")
    with pytest.raises(ConfigError, match=r"the export to CTranslate2 does not support model\.ffn = 'moe'"):
        export_ctranslate2(tmp_path / "m", tmp_path / "out")
    assert read_description(tmp_path / "m").model == model.config
