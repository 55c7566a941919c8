"""Every Transformer can have experts: with one expert it equals the dense model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.config import BertConfig, FamilyConfig, GptConfig, MixtureConfig, T5Config, ViTConfig
from regard.core.moe import mixtures, rebalance
from regard.models.build import build_model
from regard.models.ledger import ledger

SIZES: dict[str, Any] = {"d_model": 8, "n_heads": 2, "d_ff": 12}
IDS = torch.tensor([[5, 6, 7, 8], [9, 5, 0, 0]])
IMAGES = torch.randn(2, 1, 8, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
FAMILIES: dict[str, tuple[FamilyConfig, Callable[[nn.Module], Tensor]]] = {
    "gpt": (GptConfig(**SIZES, n_layers=2, vocab_size=11), lambda model: model(IDS)),
    "bert": (BertConfig(**SIZES, n_layers=2, vocab_size=11), lambda model: model(IDS)),
    "t5": (
        T5Config(**SIZES, head_size=4, n_encoder_layers=1, n_decoder_layers=1, src_vocab_size=11, tgt_vocab_size=11),
        lambda model: model(IDS, IDS[:, :3]),
    ),
    "vit": (ViTConfig(**SIZES, n_layers=2, image_size=8, n_labels=3), lambda model: model.hidden(IMAGES)),  # type: ignore[operator]
}
every_family = pytest.mark.parametrize("family", FAMILIES)


def renamed(name: str) -> str:
    """A weight of a dense network as that of an expert."""
    path, is_ffn, part = name.partition(".ffn.")
    return f"{path}.ffn.experts.{part.replace('.', '_')}" if is_ffn else name


@every_family
def test_one_expert_equals_dense(family: str) -> None:
    config, run = FAMILIES[family]
    torch.manual_seed(0)
    dense = build_model(config).double().eval()
    alone = MixtureConfig(n_experts=1, experts_per_token=1, n_shared_experts=0, kind=config.ffn)  # type: ignore[union-attr, arg-type]
    model = build_model(replace(config, ffn="moe", moe=alone)).double().eval()  # type: ignore[call-arg]
    given = {renamed(name): p[None] if ".ffn." in name else p for name, p in dense.named_parameters()}
    wanted = dict(model.named_parameters())
    assert set(wanted) - set(given) == {name for name in wanted if ".ffn.gate." in name}
    with torch.no_grad():
        for name, weight in given.items():
            wanted[name].copy_(weight)
        torch.testing.assert_close(run(model), run(dense), rtol=0, atol=1e-12)


@every_family
def test_many_experts_train(family: str) -> None:
    config, run = FAMILIES[family]
    config = replace(config, ffn="moe", moe=MixtureConfig(n_experts=4, d_ff=6), dropout=0.0)  # type: ignore[call-arg]
    torch.manual_seed(0)
    model = build_model(config).double().train()
    for name, parameter in model.named_parameters():
        if name.endswith("_weight"):
            assert parameter.std() > 0, f"{name} has no first values"
    run(model).square().sum().backward()
    for mixture in mixtures(model).values():
        assert mixture.gate.weight.grad is not None
        assert mixture.experts.up_weight.grad is not None
    report = rebalance(model)
    assert report is not None
    assert len(report.tokens) == len(mixtures(model)) == 2
    book = ledger(config)
    assert book.total == sum(p.numel() for p in model.parameters())
    assert book.active < book.total
