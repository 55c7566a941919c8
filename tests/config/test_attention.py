"""Attentions that a model cannot have are refused when its settings are read, in a sentence."""

from __future__ import annotations

import dataclasses
from typing import Any, get_args, get_type_hints

import pytest

from regard.config import BertConfig, FamilyConfig, GptConfig, T5Config, TransformerConfig, ViTConfig, convert, to_dict
from regard.config.attention import AttentionConfig, LatentAttentionConfig
from regard.errors import ConfigError

LINFORMER = {"kind": "linformer"}
WINDOW = {"kind": "window"}
LSH = {"kind": "lsh"}
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "linformer in a decoder": (
        {"family": "gpt", "attention": LINFORMER},
        "model.attention.kind = 'linformer' cannot be used as decoder attention, only as encoder attention",
    ),
    "linformer as cross-attention": (
        {"cross_attention": LINFORMER},
        "model.cross_attention.kind = 'linformer' cannot be used as cross attention",
    ),
    "block in a decoder": ({"decoder_attention": {"kind": "block"}}, "'block' cannot be used as decoder attention"),
    "adaptive span in an encoder": (
        {"family": "bert", "attention": {"kind": "adaptive_span"}},
        "'adaptive_span' cannot be used as encoder attention, only as decoder attention",
    ),
    "window as cross-attention": (
        {"cross_attention": WINDOW},
        "model.cross_attention.kind = 'window' cannot be used as cross attention, only as encoder or decoder",
    ),
    "sparse as cross-attention": ({"cross_attention": {"kind": "sparse"}}, "cannot be used as cross attention"),
    "latent": ({"attention": {"kind": "latent"}}, "is the attention of model.family = 'deepseek' only"),
    "alibi": (
        {"attention": WINDOW, "position": "alibi"},
        "model.attention.kind = 'window' cannot have positions that act on the scores",
    ),
    "relative": (
        {"decoder_attention": {"kind": "adaptive_span"}, "position": "relative"},
        "set another model.position, or model.decoder_attention.kind = 'full' or 'blockwise'",
    ),
    "t5": ({"family": "t5", "attention": WINDOW}, "cannot have positions that act on the scores"),
    "windows per layer": (
        {"family": "gpt", "n_layers": 3, "attention": {"kind": "window", "window": [4, 8]}},
        "model.attention.window has 2 numbers; it needs one, or one for each of the 3 layers",
    ),
    "dilations per head": (
        {"family": "gpt", "n_heads": 4, "attention": {"kind": "window", "dilation": [1, 2]}},
        "model.attention.dilation has 2 numbers; it needs one, or one for each of the 4 heads",
    ),
    "negative window": ({"attention": {"kind": "window", "window": [-1]}}, "needs numbers from 0 to 2,147,483,647"),
    "no dilation": ({"attention": {"kind": "window", "dilation": [0]}}, "needs numbers from 1 to 2,147,483,647"),
    "a pattern twice": (
        {"attention": {"kind": "sparse", "patterns": ["local", "local"]}},
        "must name different patterns",
    ),
    "more patterns than heads": (
        {"family": "gpt", "n_heads": 1, "attention": {"kind": "sparse"}},
        "model.attention.patterns has 2 patterns for 1 heads",
    ),
    "summary columns": (
        {"attention": {"kind": "sparse", "patterns": ["fixed"], "stride": 4, "summary_columns": 5}},
        "summary_columns = 5 is more than a block has",
    ),
    "summary columns without fixed": (
        {"attention": {"kind": "sparse", "summary_columns": 4}},
        "summary_columns = 4 has no effect: only the pattern 'fixed' uses it",
    ),
    "blocks that do not divide": ({"attention": {"kind": "block", "n_blocks": 3}}, "does not divide length"),
    "a shift too far": ({"attention": {"kind": "block", "shifts": [2]}}, "needs numbers from 0 to 1"),
    "linformer shorter than bert": (
        {"family": "bert", "attention": {"kind": "linformer", "length": 100}},
        "model.attention.length = 100 is less than the 512 tokens that the model takes: set it to 512",
    ),
    "linformer in vit": (
        {"family": "vit", "attention": LINFORMER},
        "model.attention.kind = 'linformer' has no weights for patches",
    ),
    "block shorter than vit": (
        {"family": "vit", "attention": {"kind": "block", "length": 32}},
        "model.attention.length = 32 is less than the 50 tokens",
    ),
    "lsh as cross-attention": (
        {"cross_attention": LSH},
        "model.cross_attention.kind = 'lsh' cannot be used as cross attention, only as encoder or decoder",
    ),
    "lsh with alibi": (
        {"decoder_attention": LSH, "position": "alibi"},
        "model.decoder_attention.kind = 'lsh' cannot have positions that act on the scores",
    ),
    "lsh in t5": ({"family": "t5", "attention": LSH}, "cannot have positions that act on the scores"),
    "too many hashes": (
        {"attention": {"kind": "lsh", "n_buckets": 2**12, "n_rounds": 4, "evaluation_rounds": 300}},
        "n_buckets = 4,096 times 300 rounds is too large; the most is 1,048,576",
    ),
    "a window beyond any text": ({"attention": {"kind": "window", "window": [2**31]}}, "from 0 to 2,147,483,647"),
    "odd buckets": ({"attention": {"kind": "lsh", "n_buckets": 5}}, "n_buckets = 5 must be 1 or even"),
    "span": (
        {"family": "gpt", "attention": {"kind": "adaptive_span", "max_span": 8, "initial_span": 9}},
        "initial_span = 9 is more than max_span = 8",
    ),
    "a setting of another kind": (
        {"family": "gpt", "attention": {"kind": "full", "window": [3]}},
        "model.attention.window is a setting of the kind 'window'",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_is_refused(name: str) -> None:
    tree, sentence = REFUSED[name]
    with pytest.raises(ConfigError) as caught:
        convert(FamilyConfig, tree, "model")
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    "config",
    [
        {"family": "gpt", "n_layers": 2, "attention": {"kind": "window", "window": [4, 8]}},
        {"family": "t5", "attention": {"kind": "blockwise"}},
        {"family": "bert", "attention": LINFORMER},
        {"family": "gpt", "attention": {"kind": "lsh", "n_buckets": 1}},
        {"attention": LSH, "decoder_attention": LSH, "position": "rotary"},
        {"family": "vit", "attention": {"kind": "block", "length": 64}},
        {
            "attention": LINFORMER,
            "decoder_attention": {"kind": "adaptive_span"},
            "cross_attention": {"kind": "blockwise"},
        },
        {"position": "alibi", "attention": {"kind": "blockwise"}},
    ],
)
def test_what_can_be_is_read_and_written(config: dict[str, Any]) -> None:
    read = convert(FamilyConfig, config, "model")
    assert isinstance(read, GptConfig | T5Config | BertConfig | ViTConfig | TransformerConfig)
    assert convert(FamilyConfig, to_dict(read), "model") == read


def test_a_transformer_stored_with_one_attention_is_still_read() -> None:
    read = convert(FamilyConfig, {"family": "transformer", "attention": {"kind": "full"}}, "model")
    assert read == TransformerConfig()


@pytest.mark.parametrize("kind", [kind for kind in get_args(AttentionConfig) if kind is not LatentAttentionConfig])
def test_every_size_has_a_limit(kind: Any) -> None:
    """A folder of a few kilobytes must not ask for gigabytes. (The sizes of latent attention are those of weights.)"""
    hints = get_type_hints(kind)
    for one in dataclasses.fields(kind):
        if hints[one.name] is int:
            assert one.metadata["high"] or one.metadata["below"], one.name
