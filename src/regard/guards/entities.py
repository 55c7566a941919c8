"""Entities: the parts of a source text that its translation must contain.

*Protected* entities (URLs, e-mail addresses, code, symbols, foreign words) must be copied exactly, so they are hidden
from the model. *Checked* entities (numbers and names) go through the model, which may write them in another way (3 as
three, 1万 as 10,000); the translation is then searched for them (`missing.py`). Expects normalised text.
"""

from __future__ import annotations

from collections.abc import Sequence

from regard.guards.language_rules import LanguageRules, TextContext
from regard.text.cached import cached_by_text
from regard.text.literals import scan
from regard.text.spans import Span, SpanKind

PROTECTED: tuple[SpanKind, ...] = ("url", "email", "code", "symbol", "notation", "foreign")


@cached_by_text
def find_entities(text: str, language: LanguageRules) -> tuple[Span, ...]:
    """The entities of a text in the given language, in order; dates are found by `dates.find_dates`."""
    found = []
    context = TextContext(text)
    for span in scan(text):
        match span.kind:
            case "name":
                if language.is_name(span, context):
                    found.append(Span(span.start, span.start + len(language.trim_name(span.of(text))), "name"))
            case "foreign":
                if language.is_foreign(span.of(text), context):
                    found.append(span)
            case _:
                found.append(span)
    return tuple(found)


def protected(spans: Sequence[Span]) -> list[Span]:
    return [span for span in spans if span.kind in PROTECTED]


def checked(spans: Sequence[Span]) -> list[Span]:
    return [span for span in spans if span.kind not in PROTECTED]
