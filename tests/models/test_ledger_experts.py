"""The ledger of image models, and of models with experts, which use some of their parameters per token."""

from __future__ import annotations

import math

import pytest
import torch

from regard.config import (
    PRESETS,
    VOCABULARIES,
    DeepSeekConfig,
    FamilyConfig,
    MixtureConfig,
    TransformerConfig,
    ViTConfig,
    convert,
)
from regard.models.build import build_model
from regard.models.ledger import Ledger, ledger


def preset(name: str) -> Ledger:
    return ledger(convert(FamilyConfig, PRESETS[name], "model").with_vocabulary(VOCABULARIES.get(name, 0)))


def test_deepseek_v3_is_671_billion_of_which_37_are_active() -> None:
    book = preset("deepseek-v3")
    d, layers, heads = 7168, 61, 128
    attention = d * 1536 + 1536 * heads * 192 + d * 576 + 512 * heads * 256 + heads * 128 * d
    expert = 3 * d * 2048
    vocabulary = 129_280 * d
    assert book.totals == {
        "attention": layers * attention,
        "recurrence": 0,
        "ffn": 3 * 3 * d * 18_432,
        "embeddings": 2 * vocabulary,
        "norms": layers * (2 * d + 1536 + 512) + d,
        "positions": 0,
        "experts": 58 * 257 * expert,
        "router": 58 * (256 * d + 256),
    }
    assert book.total == 671_026_419_200
    # Eight experts and the shared one; one row of the input's table.
    assert book.active == book.total - 58 * 248 * expert - vocabulary + d
    assert round(book.total / 1e9) == 671
    assert round(book.active / 1e9) == 37


def test_vit_base_is_86_million() -> None:
    book = preset("vit-base")
    assert book.total == book.active == 86_567_656
    assert book.totals["positions"] == 197 * 768
    assert book.totals["embeddings"] == 768 * 768 + 2 * 768 + 1000 * 768 + 1000


@pytest.mark.parametrize(
    "config",
    [
        DeepSeekConfig(vocab_size=20),
        DeepSeekConfig(
            vocab_size=20, q_rank=8, tie_embeddings=True, moe=MixtureConfig(load_balancing="loss", n_shared_experts=0)
        ),
        ViTConfig(n_labels=3),
        TransformerConfig(ffn="moe", src_vocab_size=20, tgt_vocab_size=20),
        TransformerConfig(ffn="moe", moe=MixtureConfig(kind="relu", n_groups=2), src_vocab_size=20, tgt_vocab_size=20),
    ],
    ids=["deepseek", "deepseek-tied", "vit", "moe", "moe-relu"],
)
def test_ledger_equals_the_model_itself(config: FamilyConfig) -> None:
    book = ledger(config)
    real = dict(build_model(config).named_parameters())
    assert {row.name: row.shape for row in book.rows} == {name: tuple(p.shape) for name, p in real.items()}
    assert book.total == sum(book.totals.values()) == sum(p.numel() for p in real.values())
    assert sum(row.count for row in book.folded()) == book.total
    assert sum(row.active for row in book.folded()) == book.active


def test_parameters_active_per_token() -> None:
    shape = {"d_model": 8, "n_heads": 2, "d_ff": 16, "n_encoder_layers": 1, "n_decoder_layers": 1}
    words = {"src_vocab_size": 20, "tgt_vocab_size": 20}
    book = ledger(TransformerConfig(ffn="moe", moe=MixtureConfig(n_experts=8, experts_per_token=2), **shape, **words))
    one_expert = 8 * 32 + 32 + 16 * 8 + 8
    assert book.total - book.active == 2 * 6 * one_expert  # the table of words is the output's too
    rows = {row.name: row for row in book.rows}
    assert rows["encoder.0.ffn.experts.up_weight"].used == 2 / 8
    assert rows["encoder.0.ffn.experts.up_weight"].note == "8 experts W_gate W_up"
    assert rows["encoder.0.ffn.experts.up_weight"].group == rows["encoder.0.ffn.shared.up.weight"].group == "experts"
    assert rows["encoder.0.ffn.gate.correction_E"].group == "router"
    tied, untied = (
        ledger(DeepSeekConfig(vocab_size=50, n_dense_layers=4, tie_embeddings=tied)) for tied in (True, False)
    )
    assert tied.active == tied.total
    assert untied.active == untied.total - 49 * 256


def test_nothing_is_allocated_or_drawn() -> None:
    before = torch.get_rng_state()
    book = ledger(DeepSeekConfig(vocab_size=10, moe=MixtureConfig(n_experts=10**9)))
    assert book.totals["experts"] > math.prod((10**9, 3, 256, 1024))
    assert torch.equal(torch.get_rng_state(), before)
