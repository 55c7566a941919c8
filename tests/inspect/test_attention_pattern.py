"""Maps of attention patterns: what is drawn is what the attention computes, at any length; marks; figures."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import torch

from regard.config import (
    AdaptiveSpanConfig,
    AttentionConfig,
    BertConfig,
    BlockAttentionConfig,
    BlockwiseAttentionConfig,
    FullAttention,
    GptConfig,
    LinformerConfig,
    LshAttentionConfig,
    RecurrentConfig,
    RingAttentionConfig,
    SparseAttentionConfig,
    T5Config,
    TransformerConfig,
    WindowAttentionConfig,
)
from regard.core.attention.build import build_attention
from regard.core.masks import CausalMask
from regard.core.taps import record
from regard.errors import ConfigError
from regard.inspect.attention_pattern import attention_pattern, find_place
from regard.inspect.pattern_figure import caption, draw_patterns

SIZES: dict[str, Any] = {"d_model": 12, "n_heads": 3, "n_layers": 2}
KINDS: dict[str, AttentionConfig] = {
    "full": FullAttention(),
    "blockwise": BlockwiseAttentionConfig(block=5),
    "ring": RingAttentionConfig(block=5),
    "window": WindowAttentionConfig(window=(2, 4), dilation=(1, 2, 1), n_global_tokens=2),
    "heads": SparseAttentionConfig(("local", "strided", "fixed"), stride=4, summary_columns=1),
    "merged": SparseAttentionConfig(combine="merged", stride=3),
    "block": BlockAttentionConfig(length=24, n_blocks=4, shifts=(0, 1, 3)),
    "adaptive_span": AdaptiveSpanConfig(max_span=12, initial_span=3, ramp=2),
}


def model(attention: AttentionConfig) -> GptConfig | BertConfig:
    if "decoder" in attention.roles:
        return GptConfig(**SIZES, attention=attention)
    return BertConfig(**SIZES, attention=attention, max_positions=24)


@pytest.mark.parametrize("layer", [0, 1])
@pytest.mark.parametrize("name", KINDS)
def test_a_map_is_what_the_attention_sees(name: str, layer: int) -> None:
    """One cell per token: where the weights of the module itself are not zero."""
    place = find_place(model(KINDS[name]))
    torch.manual_seed(0)
    made: Any = build_attention(place.config, 12, 3, place.role, layer=layer).double().eval()
    for parameter_name, parameter in made.named_parameters():
        if not parameter_name.endswith("span_H"):
            torch.nn.init.normal_(parameter)
    mask = CausalMask(22, 22) if place.role == "decoder" else None
    with record(made, "weights") as seen:
        made(torch.randn(1, 22, 12, dtype=torch.float64), mask=mask)
    for head in range(3):
        shown = attention_pattern(place, 22, layer, head)
        np.testing.assert_array_equal(shown.share_CC, seen["weights"][0, head].numpy() > 0)
        assert shown.seen == pytest.approx(shown.share_CC.mean())


def test_buckets_are_those_of_the_layer() -> None:
    place = find_place(GptConfig(**SIZES, attention=LshAttentionConfig(n_buckets=4, chunk=3, n_rounds=2)))
    shown = attention_pattern(place, 30, layer=1, head=2)
    assert len(shown.bucket_L) == 30
    assert set(shown.bucket_L) <= set(range(4))
    assert not np.triu(shown.share_CC, 1).any()
    assert shown.share_CC.any(1).all()
    alone = np.diag(shown.share_CC) > 0
    assert not (shown.share_CC[alone] - np.eye(30)[alone]).any()
    same = np.equal.outer(shown.bucket_L, shown.bucket_L)
    far = np.abs(np.subtract.outer(np.arange(30), np.arange(30))) == 0
    assert (shown.share_CC[same & np.tril(~far)] > 0).mean() > 0.5
    assert "random keys" in shown.title


@pytest.mark.parametrize("name", ["window", "heads", "block"])
def test_cells_have_the_shares_of_their_pairs(name: str) -> None:
    place = find_place(model(KINDS[name]))
    exact, reduced = (attention_pattern(place, 24, cells=cells) for cells in (24, 6))
    np.testing.assert_allclose(reduced.share_CC, exact.share_CC.reshape(6, 4, 6, 4).mean((1, 3)))
    assert reduced.seen == exact.seen


def test_long_texts_are_reduced() -> None:
    place = find_place(GptConfig(**SIZES, attention=WindowAttentionConfig(window=(256,))))
    shown = attention_pattern(place, 8192)
    assert shown.share_CC.shape == (128, 128)
    assert shown.seen == pytest.approx((257 * 8192 - 256 * 257 / 2) / 8192**2)


def test_marks() -> None:
    window = attention_pattern(find_place(model(KINDS["window"])), 20)
    assert window.n_global_tokens == 2
    block = attention_pattern(find_place(model(KINDS["block"])), 24, head=1)
    assert block.blocks == (0, 6, 12, 18)
    assert block.key_of_block == (1, 2, 3, 0)
    span = attention_pattern(find_place(model(KINDS["adaptive_span"])), 20, spans_H=np.array([0.5, 1, 0], np.float32))
    assert span.span == 6
    assert span.share_CC[19].sum() == 8
    assert "span 6, then a ramp" in caption(span)


def test_roles() -> None:
    config = TransformerConfig(decoder_attention=WindowAttentionConfig(window=(1,)))
    assert attention_pattern(find_place(config), 4).share_CC.all()
    assert attention_pattern(find_place(config, "decoder"), 4).seen == 7 / 16
    assert attention_pattern(find_place(config, "cross"), 4).share_CC.all()
    t5 = T5Config(head_size=12, n_decoder_layers=3, n_heads=5)
    decoder = find_place(t5, "decoder")
    assert (decoder.n_layers, decoder.n_heads, decoder.head_size) == (3, 5, 12)
    assert attention_pattern(decoder, 4).seen == 10 / 16


def test_refusals() -> None:
    with pytest.raises(ConfigError, match="every query sees 8 mixtures of all tokens"):
        attention_pattern(find_place(BertConfig(attention=LinformerConfig(projected_length=8))), 4)
    with pytest.raises(ConfigError, match="a recurrent model has no self-attention"):
        find_place(RecurrentConfig())
    with pytest.raises(ConfigError, match="has no encoder attention, only decoder"):
        find_place(GptConfig(), "encoder")
    place = find_place(model(KINDS["block"]))
    for changes, reason in (
        ({"layer": 2}, "there is no layer 2"),
        ({"head": -1}, "there is no head -1"),
        ({"length": 25}, "the blocks of this model's attention end at 24"),
        ({"length": 200_000}, "1 to 131,072 tokens"),
    ):
        with pytest.raises(ConfigError, match=reason):
            attention_pattern(place, **{"length": 9, **changes})


def test_a_figure_has_every_mark() -> None:
    lsh = find_place(GptConfig(**SIZES, attention=LshAttentionConfig(n_buckets=4, chunk=3)))
    shown = [attention_pattern(find_place(model(KINDS[name])), 20) for name in ("window", "block", "adaptive_span")]
    figure = draw_patterns([*shown, attention_pattern(lsh, 20)], columns=2)
    root = ElementTree.fromstring(figure)
    texts = [one.text or "" for one in root.iter("{http://www.w3.org/2000/svg}text")]
    assert [one for one in texts if "global tokens" in one and "seen" in one]
    assert [one for one in texts if "buckets in use" in one]
    assert figure.count("hsl(") > 8
    assert "#f59e0b" in figure
    assert "#ef4444" in figure
    assert draw_patterns(shown) == draw_patterns(shown)
