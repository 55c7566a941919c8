"""Spans of a text, and functions that change a text inside or outside given spans."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

SpanKind = Literal["url", "email", "code", "symbol", "notation", "foreign", "number", "name", "date", "measure"]


@dataclass(frozen=True)
class Span:
    start: int
    stop: int
    kind: SpanKind

    def of(self, text: str) -> str:
        """The characters of `text` that the span covers."""
        return text[self.start : self.stop]

    def overlaps(self, other: Span) -> bool:
        return self.start < other.stop and other.start < self.stop


def remove_spans(text: str, spans: Sequence[Span]) -> str:
    """Replace each span by a space."""
    parts, at = [], 0
    for span in spans:
        parts.append(text[at : span.start])
        at = span.stop
    return " ".join([*parts, text[at:]])


def map_spans(text: str, spans: Sequence[Span], change: Callable[[str], str]) -> str:
    """Apply `change` to the text of each span."""
    for span in reversed(spans):
        text = text[: span.start] + change(span.of(text)) + text[span.stop :]
    return text


def map_between_spans(text: str, spans: Sequence[Span], change: Callable[[str], str]) -> str:
    """Apply `change` to the text between the spans."""
    parts, at = [], 0
    for span in spans:
        parts += [change(text[at : span.start]), span.of(text)]
        at = span.stop
    return "".join([*parts, change(text[at:])])
