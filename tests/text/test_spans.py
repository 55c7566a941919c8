"""Changing a text inside and outside spans."""

from __future__ import annotations

from regard.text.spans import Span, map_between_spans, map_spans, remove_spans

TEXT = "one two three"
SPANS = [Span(0, 3, "name"), Span(8, 13, "name")]


def test_spans() -> None:
    assert [span.of(TEXT) for span in SPANS] == ["one", "three"]
    assert map_spans(TEXT, SPANS, str.upper) == "ONE two THREE"
    assert map_between_spans(TEXT, SPANS, str.upper) == "one TWO three"
    assert remove_spans(TEXT, SPANS).split() == ["two"]


def test_overlap() -> None:
    first, second = SPANS
    assert not first.overlaps(second)
    assert first.overlaps(Span(2, 4, "date"))
    assert not first.overlaps(Span(3, 4, "date"))
