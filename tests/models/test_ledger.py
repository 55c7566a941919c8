"""The ledger's counts equal those of the paper and of the model itself."""

from __future__ import annotations

import math
from typing import get_args

import pytest
import torch
from torch import nn

from regard.config import (
    PRESETS,
    Bidirectional,
    CellKind,
    FeedForwardKind,
    NormKind,
    NormOrder,
    Position,
    RecurrentAttention,
    RecurrentConfig,
    TiedEmbeddings,
    TransformerConfig,
)
from regard.errors import ConfigError
from regard.models.ledger import GROUPS, group_of, ledger
from regard.models.recurrent import RecurrentModel
from regard.models.transformer import Transformer


def sized(preset: str, vocabulary: int) -> TransformerConfig:
    return TransformerConfig(**PRESETS[preset], src_vocab_size=vocabulary, tgt_vocab_size=vocabulary)


def test_base_is_the_papers_65_million() -> None:
    book = ledger(sized("base", 37_000))
    embeddings = 37_000 * 512
    attention = 4 * (512 * 512 + 512)
    ffn = 512 * 2048 + 2048 + 2048 * 512 + 512
    norm = 2 * 512
    assert book.totals == {
        "attention": 6 * attention + 6 * 2 * attention,
        "recurrence": 0,
        "ffn": 12 * ffn,
        "embeddings": embeddings,
        "norms": 6 * 2 * norm + 6 * 3 * norm,
        "positions": 0,
        "experts": 0,
        "router": 0,
    }
    assert book.total == 63_082_496
    assert 63e6 < book.total < 66e6


def test_small_pre_norm_model_by_hand() -> None:
    config = TransformerConfig(
        d_model=6,
        n_heads=2,
        d_ff=10,
        n_encoder_layers=2,
        n_decoder_layers=1,
        position="learned",
        max_positions=7,
        norm_order="pre",
        norm="rmsnorm",
        ffn="swiglu",
        tie_embeddings="none",
        src_vocab_size=11,
        tgt_vocab_size=13,
    )
    book = ledger(config)
    assert book.totals == {
        "attention": (2 + 2) * (3 * 6 * 6 + 3 * 6 + 6 * 6 + 6),
        "recurrence": 0,
        "ffn": 3 * (6 * 20 + 20 + 10 * 6 + 6),
        "embeddings": 11 * 6 + 13 * 6 + 13 * 6,
        "norms": (2 * 2 + 1 * 3 + 2) * 6,
        "positions": 2 * 7 * 6,
        "experts": 0,
        "router": 0,
    }
    assert sum(book.shares.values()) == pytest.approx(1)
    assert book.shares["ffn"] == pytest.approx(3 * 206 / book.total)


@pytest.mark.parametrize("tie_embeddings", ["all", "output", "none"])
@pytest.mark.parametrize("position", ["sinusoidal", "learned", "rotary", "alibi", "relative", "none"])
@pytest.mark.parametrize(("order", "norm", "ffn"), [("post", "layernorm", "relu"), ("pre", "rmsnorm", "swiglu")])
def test_ledger_equals_the_model_itself(
    tie_embeddings: TiedEmbeddings, position: Position, order: NormOrder, norm: NormKind, ffn: FeedForwardKind
) -> None:
    config = TransformerConfig(
        d_model=8, n_heads=2, d_ff=12, n_encoder_layers=1, n_decoder_layers=2, position=position, max_positions=9,
        norm_order=order, norm=norm, ffn=ffn, tie_embeddings=tie_embeddings, src_vocab_size=10, tgt_vocab_size=10,
    )  # fmt: skip
    book = ledger(config)
    real = dict(Transformer(config).named_parameters())
    assert {row.name: row.shape for row in book.rows} == {name: tuple(p.shape) for name, p in real.items()}
    assert book.total == sum(p.numel() for p in real.values())
    assert sum(book.totals.values()) == book.total
    assert (book.totals["positions"] > 0) == (position in ("learned", "relative"))
    assert set(book.totals) == set(GROUPS)


@pytest.mark.parametrize(
    ("tie_embeddings", "notes"),
    [
        ("all", {"tgt_embedding.weight": "shared with src_embedding and output"}),
        ("output", {"tgt_embedding.weight": "shared with output", "src_embedding.weight": ""}),
        ("none", {"tgt_embedding.weight": "", "src_embedding.weight": "", "output.weight": ""}),
    ],
)
def test_a_shared_matrix_is_one_row_that_says_so(tie_embeddings: TiedEmbeddings, notes: dict[str, str]) -> None:
    book = ledger(TransformerConfig(tie_embeddings=tie_embeddings, src_vocab_size=50, tgt_vocab_size=50))
    rows = [row for row in book.rows if row.group == "embeddings"]
    assert {row.name: row.note for row in rows} == notes
    assert book.totals["embeddings"] == len(notes) * 50 * 256


def test_matrices_in_one_are_named() -> None:
    config = TransformerConfig(ffn="swiglu", src_vocab_size=50, tgt_vocab_size=50)
    notes = {row.name: row.note for row in ledger(config).rows}
    assert notes["decoder.1.cross.qkv.weight"] == "W_Q W_K W_V"
    assert notes["encoder.0.attention.qkv.bias"] == "b_Q b_K b_V"
    assert notes["encoder.0.attention.out.weight"] == "W_O"
    assert notes["encoder.2.ffn.up.weight"] == "W_gate W_up"
    assert notes["encoder.2.ffn.down.weight"] == ""


def test_folding_keeps_the_sum_and_the_names() -> None:
    book = ledger(sized("base", 37_000))
    folded = {row.name: row for row in book.folded()}
    assert sum(row.count for row in folded.values()) == book.total
    row = folded["encoder.0…5.ffn.up.weight"]
    assert (row.times, row.shape, row.count, row.group) == (6, (2048, 512), 6 * 2048 * 512, "ffn")
    assert folded["decoder.0…5.cross.qkv.weight"].note == "W_Q W_K W_V"
    assert folded["tgt_embedding.weight"].times == 1
    # 2 linear maps with bias in each attention and ffn, 2 parameters a norm, and the embedding
    assert len(folded) == 1 + (4 + 4 + 2 * 2) + (2 * 4 + 4 + 3 * 2)


def test_a_single_layer_is_not_folded() -> None:
    config = TransformerConfig(n_encoder_layers=1, n_decoder_layers=2, src_vocab_size=9, tgt_vocab_size=9)
    names = [row.name for row in ledger(config).folded()]
    assert "encoder.0.ffn.up.weight" in names
    assert "decoder.0…1.ffn.up.weight" in names


def recurrent(preset: str, vocabulary: int) -> RecurrentConfig:
    return RecurrentConfig(**PRESETS[preset], src_vocab_size=vocabulary, tgt_vocab_size=vocabulary)


def test_the_lstm_preset_is_sutskevers() -> None:
    """ "384M parameters of which 64M are pure recurrent connections", with 160,000 source and 80,000 target words."""
    config = RecurrentConfig(**PRESETS["lstm"], src_vocab_size=160_000, tgt_vocab_size=80_000)
    book = ledger(config)
    bridge = sum(row.count for row in book.rows if row.name.startswith("bridge"))
    biases = sum(row.count for row in book.rows if row.name.endswith("inputs.bias"))
    assert book.totals["recurrence"] - bridge - biases == 64_000_000
    assert book.total - bridge - biases == 384_000_000


def test_gnmt_by_hand() -> None:
    d, words = 1024, 32_000
    cell, bias = 4 * d, 4 * d
    encoder = 2 * (cell * 2 * d + bias) + (cell * 3 * d + bias) + 6 * (cell * 2 * d + bias)
    decoder = 8 * (cell * 3 * d + bias)
    bridge = 8 * d * d + 8 * d
    assert ledger(recurrent("gnmt", words)).totals == {
        "attention": 2 * d * d + 2 * d,
        "recurrence": encoder + decoder + bridge,
        "ffn": 0,
        "embeddings": 3 * words * d,
        "norms": 0,
        "positions": 0,
        "experts": 0,
        "router": 0,
    }


@pytest.mark.parametrize("cell", get_args(CellKind))
@pytest.mark.parametrize("attention", get_args(RecurrentAttention))
@pytest.mark.parametrize("bidirectional", get_args(Bidirectional))
def test_the_ledger_of_a_recurrent_model_equals_the_model_itself(
    cell: CellKind, attention: RecurrentAttention, bidirectional: Bidirectional
) -> None:
    config = RecurrentConfig(
        cell=cell, attention=attention, d_model=6, n_encoder_layers=2, n_decoder_layers=2, bidirectional=bidirectional,
        src_vocab_size=10, tgt_vocab_size=10,
    )  # fmt: skip
    book = ledger(config)
    real = dict(RecurrentModel(config).named_parameters())
    assert {row.name: row.shape for row in book.rows} == {name: tuple(p.shape) for name, p in real.items()}
    assert book.total == sum(p.numel() for p in real.values())
    own = attention == "additive" or (attention == "dot" and bidirectional == "all")
    assert (book.totals["attention"] > 0) == own


def test_gates_in_one_matrix_are_named() -> None:
    notes = {row.name: row.note for row in ledger(recurrent("gnmt", 50)).rows}
    assert notes["encoder.0.backwards.inputs.weight"] == "W_i W_f W_g W_o"
    assert notes["decoder.7.recurrence.recurrent.weight"] == "U_i U_f U_g U_o"
    notes = {row.name: row.note for row in ledger(recurrent("bahdanau", 50)).rows}
    assert notes["encoder.0.forwards.inputs.bias"] == "b_r b_z b_n"
    assert notes["decoder.0.recurrence.recurrent.bias"] == "u_r u_z u_n"
    config = RecurrentConfig(cell="rnn", src_vocab_size=50, tgt_vocab_size=50)
    assert not any(row.note for row in ledger(config).rows if "shared" not in row.note)


def test_a_layer_between_that_is_not_like_the_others_is_left_out_of_the_name() -> None:
    folded = {row.name: row for row in ledger(recurrent("gnmt", 50)).folded()}
    assert folded["encoder.0,2…7.forwards.inputs.weight"].times == 7
    assert folded["encoder.1.forwards.inputs.weight"].shape == (4096, 2048)
    assert folded["decoder.0…7.context.weight"].times == 8


def test_nothing_is_allocated_or_drawn() -> None:
    """A model of four petabytes can be counted, and the random state is unchanged."""
    torch.manual_seed(3)
    before = torch.get_rng_state()
    book = ledger(sized("big", 10**12))
    assert book.totals["embeddings"] == 1024 * 10**12
    assert ledger(recurrent("gnmt", 10**12)).totals["embeddings"] == 3 * 1024 * 10**12
    assert torch.equal(torch.get_rng_state(), before)


def test_an_unknown_vocabulary_size_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"model\.src_vocab_size"):
        ledger(TransformerConfig())


def test_count_is_the_product_of_the_shape() -> None:
    for row in ledger(sized("tiny", 300)).rows:
        assert row.count == math.prod(row.shape)


def test_a_parameter_of_no_known_module_is_refused() -> None:
    model = nn.Sequential(nn.Linear(2, 2))
    with pytest.raises(TypeError, match=r"0\.weight belongs to no group of the ledger"):
        group_of(model, "0.weight")
