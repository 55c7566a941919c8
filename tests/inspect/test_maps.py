from __future__ import annotations

import numpy as np
import pytest

from regard.errors import ConfigError
from regard.inspect.figure import draw_map
from regard.inspect.maps import AttentionMap, attention_map
from regard.pipelines.model_translator import ModelTranslator

TEXT, TARGET = "apple baby bird", "cat bird"


def test_one_head(reverse: ModelTranslator) -> None:
    trace = reverse.trace(TEXT, TARGET)
    shown = attention_map(trace, "cross", 1, 3)
    np.testing.assert_array_equal(shown.weights_LM, trace["decoder.0.cross.weights"][2])
    assert shown.rows == ("cat", "bird", "</s>")
    assert shown.columns == ("apple", "baby", "bird", "</s>")
    assert shown.title == "cross-attention, layer 1, head 3"


def test_means_and_the_other_kinds(reverse: ModelTranslator) -> None:
    trace = reverse.trace(TEXT, TARGET)
    mean = attention_map(trace, "encoder")
    assert mean.weights_LM == pytest.approx(trace["encoder.0.attention.weights"].mean(axis=0))
    assert mean.title == "encoder self-attention, mean of 1 layers × 4 heads"
    assert mean.rows == mean.columns == ("apple", "baby", "bird", "</s>")
    own = attention_map(trace, "decoder", head=2)
    assert own.columns == ("<s>", "cat", "bird")
    assert own.rows == ("cat", "bird", "</s>")
    assert own.title == "decoder self-attention, head 2, mean of 1 layers"
    assert np.triu(own.weights_LM, 1).max() == 0


def test_a_map_that_is_too_large_to_be_read(reverse: ModelTranslator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.inspect.maps.MOST_DRAWN", 3)
    trace = reverse.trace(TEXT, TARGET)
    attention_map(trace, "decoder")
    with pytest.raises(ConfigError, match="the map has 3 rows and 4 columns; at most 3 of each can be drawn"):
        attention_map(trace, "cross")


def test_what_is_not_there(reverse: ModelTranslator, recurrent: ModelTranslator) -> None:
    trace = reverse.trace(TEXT, TARGET)
    with pytest.raises(ConfigError, match="there is no layer 2 in the cross-attention: it has 1, numbered from 1"):
        attention_map(trace, "cross", 2)
    with pytest.raises(ConfigError, match="there is no head 0"):
        attention_map(trace, "cross", 1, 0)
    with pytest.raises(ConfigError, match="no encoder self-attention to draw"):
        attention_map(recurrent.trace(TEXT, TARGET), "encoder")


MAP = AttentionMap(np.array([[0.25, 0.75], [1.0, 0.0]]), ("$a_1$", "<b>"), ("x", "我"), "a & b")


def test_a_figure_is_a_picture() -> None:
    drawing = draw_map(MAP, "png")
    assert drawing.content.startswith(b"\x89PNG")
    assert draw_map(MAP, "png").content == drawing.content


def test_text_in_an_svg_is_text() -> None:
    drawing = draw_map(MAP, "svg")
    text = drawing.content.decode()
    assert text.rstrip().endswith("</svg>")
    assert all(word in text for word in ("$a_1$", "&lt;b&gt;", "我", "a &amp; b"))
    assert draw_map(MAP, "svg").content == drawing.content


def test_characters_that_no_font_has() -> None:
    odd = AttentionMap(np.ones((1, 1)), ("\U0001f9ff\ue000",), ("x",), "")
    assert draw_map(odd, "png").missing
    plain = AttentionMap(np.ones((1, 1)), ("y",), ("x",), "")
    assert not draw_map(plain, "png").missing
